#include "ringlet/train/parallel/model/pipeline_cut.h"

#include <algorithm>
#include <limits>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/tensor/random.h"

namespace ringlet::train {
namespace {

std::vector<double> parameters_of_layers(const models::Loss& loss,
                                         const models::Transformer& transformer) {
  std::vector<double> costs(static_cast<std::size_t>(transformer.config().num_hidden_layers));
  for (const auto& [name, parameter] : transformer.named_parameters())
    costs[static_cast<std::size_t>(layer_of(name).value_or(0))] +=
        static_cast<double>(parameter.numel());
  costs.back() += static_cast<double>(loss.num_parameters() - transformer.num_parameters());
  return costs;
}

models::PackedBatch sample(const models::EncoderConfig& config) {
  constexpr std::int64_t kSentences = 16, kTokens = 32;
  const std::vector<std::int32_t> ids(
      static_cast<std::size_t>(std::min(kTokens, config.max_tokens())),
      static_cast<std::int32_t>(config.vocab_size - 1));
  const std::span<const std::int32_t> sentence = ids;
  models::BatchBuilder builder;
  for (std::int64_t row = 0; row < kSentences; ++row) builder.add_row({&sentence, 1}, row);
  return builder.build();
}

std::vector<double> seconds_of_layers(models::Transformer& transformer) {
  constexpr int kRepetitions = 3;  // the fastest counts
  const GeneratorGuard random(RandomGenerator{});
  const Device device = transformer.device();
  const models::PackedBatch batch = sample(transformer.config()).to(device);
  std::vector<double> costs;
  std::vector<Variable> inputs;
  for (std::int64_t layer = 0; layer < transformer.config().num_hidden_layers; ++layer) {
    double fastest = std::numeric_limits<double>::infinity();
    std::vector<Variable> outputs;
    for (int i = 0; i < kRepetitions; ++i) {
      const auto begin = device_time(device);
      outputs = transformer.run_layers({layer, layer + 1}, batch, inputs);
      if (outputs[0].requires_grad()) outputs[0].backward(zeros_like(outputs[0].tensor()));
      fastest = std::min(fastest, device_time(device)->seconds_since(*begin));
    }
    costs.push_back(fastest);
    inputs.clear();
    for (const Variable& one : outputs) inputs.emplace_back(one.tensor(), true);
  }
  for (const nn::Parameter& parameter : transformer.parameters()) {
    parameter.zero_grad();
    parameter.state()->grad_buffer = Tensor();
  }
  return costs;
}

}  // namespace

std::vector<double> layer_costs(PipelineBalance balance, const models::Loss& loss,
                                models::Transformer& transformer, const Mesh& mesh) {
  if (balance == PipelineBalance::parameters) return parameters_of_layers(loss, transformer);
  std::vector<double> costs(static_cast<std::size_t>(transformer.config().num_hidden_layers), 1);
  if (balance == PipelineBalance::layers) return costs;
  if (mesh.pipe.rank() == 0) costs = seconds_of_layers(transformer);
  const Tensor all = tensor(costs, {static_cast<std::int64_t>(costs.size())}, Device{});
  mesh.world.broadcast(all, 0).wait();
  return all.to_vector<double>();
}

std::vector<int> balanced_layers(const std::vector<double>& costs, int stages) {
  const auto layers = static_cast<int>(costs.size());
  if (stages > layers)
    fail_setting("mesh", " pipe: expected at least one layer in each of ", stages,
                 " stages, the model has ", layers);
  // best[s][i]: of the first i layers in s stages; from[s][i]: where the last of these begins.
  const std::vector<double> none(static_cast<std::size_t>(layers) + 1,
                                 std::numeric_limits<double>::infinity());
  std::vector<std::vector<double>> best(static_cast<std::size_t>(stages) + 1, none);
  std::vector<std::vector<int>> from(best.size(), std::vector<int>(none.size()));
  best[0][0] = 0;
  for (std::size_t s = 1; s < best.size(); ++s)
    for (std::size_t i = s; i < none.size(); ++i) {
      double last = 0;
      for (std::size_t j = i; j-- > s - 1;) {
        last += costs[j];
        // The last stage gets most layers of equal cuts, which shares out equal costs evenly.
        if (const double most = std::max(best[s - 1][j], last); most <= best[s][i]) {
          best[s][i] = most;
          from[s][i] = static_cast<int>(j);
        }
      }
    }
  std::vector<int> counts;
  for (int s = stages, end = layers; s > 0; --s) {
    const int begin = from[static_cast<std::size_t>(s)][static_cast<std::size_t>(end)];
    counts.insert(counts.begin(), end - begin);
    end = begin;
  }
  return counts;
}

std::vector<models::LayerRange> cut_layers(const std::vector<int>& counts, std::int64_t layers,
                                           int stages) {
  if (static_cast<int>(counts.size()) != stages)
    fail_setting("pipeline_layers", ": expected ", stages, " numbers, found ", counts.size());
  std::vector<models::LayerRange> ranges;
  std::int64_t end = 0;
  for (const int count : counts) {
    if (count < 1)
      fail_setting("pipeline_layers", ": expected at least 1 in each stage, found ", count);
    ranges.push_back({end, end + count});
    end += count;
  }
  if (end != layers)
    fail_setting("pipeline_layers", ": expected the sum ", layers, ", found ", end);
  return ranges;
}

std::optional<std::int64_t> layer_of(const std::string& name) {
  constexpr std::string_view kLayer = "layer.";
  const std::size_t at = name.find(kLayer);
  if (at == name.npos) return {};
  const std::size_t begin = at + kLayer.size();
  return parse_number<std::int64_t>(name.substr(begin, name.find('.', begin) - begin));
}

}  // namespace ringlet::train
