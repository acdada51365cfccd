// Pipelines against gradient accumulation on one device.
#include "ringlet/ringlet.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "../../../device.h"
#include "ringlet/tests/extended.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr std::int64_t kWidth = 9;

/// Twelve layers of a residual linear layer and a norm each; the rows of each micro-batch.
struct LinearStack {
  static constexpr int kLayers = 12;
  std::vector<std::shared_ptr<nn::Linear>> linears;
  std::vector<std::shared_ptr<nn::LayerNorm>> norms;
  std::vector<Tensor> micro_batches;

  explicit LinearStack(int count) {
    const GeneratorGuard guard({.seed = 7});
    for (int i = 0; i < kLayers; ++i) {
      linears.push_back(std::make_shared<nn::Linear>(kWidth, kWidth));
      norms.push_back(std::make_shared<nn::LayerNorm>(kWidth, 1e-5));
    }
    for (int k = 0; k < count; ++k)  // of different sizes, one of them empty
      micro_batches.push_back(normal({k == 1 ? 0 : 3 + k % 4, kWidth}));
  }
  /// Layers [begin, end) of micro-batch k, and behind the last one its share of the loss.
  Variable forward(int begin, int end, int k, const Variable& input) const {
    Variable x = begin == 0 ? Variable(micro_batches[static_cast<std::size_t>(k)]) : input;
    for (int i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      x = norms[at]->forward(autograd::add(x, autograd::tanh(linears[at]->forward(x))));
    }
    return end == kLayers ? autograd::sum(autograd::square(x)) : x;
  }
  std::vector<Variable> parameters(int begin, int end) const {
    std::vector<Variable> all;
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      all.insert(all.end(),
                 {linears[i]->weight, linears[i]->bias, norms[i]->weight, norms[i]->bias});
    return all;
  }
  double accumulate() const {
    double sum = 0;
    for (int k = 0; k < static_cast<int>(micro_batches.size()); ++k) {
      const Variable loss = forward(0, kLayers, k, {});
      loss.backward();
      sum += loss.tensor().to_vector<double>()[0];
    }
    return sum;
  }
};

/// The layer where a stage begins; stages are of different lengths.
int edge(int stage, int stages) {
  return stage == 0 ? 0
                    : std::min(LinearStack::kLayers, (stage * LinearStack::kLayers + 1) / stages);
}

void check_step(const comm::Group& group, PipelineKind kind, int micro_batches, int chunks) {
  const LinearStack piped(micro_batches), whole(micro_batches);
  const int stages = group.size() * chunks;
  std::vector<Pipeline::Forward> forwards;
  std::vector<Variable> mine, expected;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int stage = chunk * group.size() + group.rank();
    const int begin = edge(stage, stages), end = edge(stage + 1, stages);
    forwards.push_back(
        [&piped, begin, end](int k, const Pipeline::Variables& x) -> Pipeline::Variables {
          return {piped.forward(begin, end, k, x.empty() ? Variable() : x[0])};
        });
    for (const Variable& one : piped.parameters(begin, end)) mine.push_back(one);
    for (const Variable& one : whole.parameters(begin, end)) expected.push_back(one);
  }
  Pipeline pipeline(group, forwards,
                    [&](int, int k) -> std::vector<Pipeline::Message> {
                      return {{piped.micro_batches[static_cast<std::size_t>(k)].shape()}};
                    },
                    {.kind = kind, .micro_batches = micro_batches});
  for (int step = 0; step < 2; ++step) {  // the second adds to the gradients of the first
    RINGLET_CHECK_EQ(pipeline.run(), whole.accumulate(), "loss");
    for (std::size_t i = 0; i < mine.size(); ++i)
      RINGLET_CHECK(mine[i].grad().to_vector() == expected[i].grad().to_vector(),
                    "gradient of parameter ", i, " of rank ", group.rank(), " in step ", step);
  }
}

std::vector<Pipeline::Message> two_rows(int, int) { return {{{2, kWidth}}}; }

}  // namespace

TEST_CASE("a pipeline has the gradients of accumulation, bit for bit") {
  for (const int ranks : grid({1, 2, 3}, {4}))
    for (const int micro_batches : grid({1, 3, 4}, {2, 8}))
      for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b,
                                      PipelineKind::interleaved, PipelineKind::zero_bubble}) {
        const bool interleaved = kind == PipelineKind::interleaved;
        if (interleaved && micro_batches % ranks != 0) continue;
        for (const int chunks : interleaved ? std::vector{2, 3} : std::vector{1}) {
          INFO(kPipelines(kind), ", ", ranks, " ranks, ", micro_batches, " micro-batches, ", chunks,
               " chunks");
          CHECK_NOTHROW(comm::launch(
              [&](const comm::Group& group) { check_step(group, kind, micro_batches, chunks); },
              ranks, {.group = {.timeout = std::chrono::seconds(30)}}));
        }
      }
}

TEST_CASE("m messages go over each edge in each direction") {
  comm::launch(
      [](const comm::Group& group) {
        check_step(group, PipelineKind::one_f_one_b, 4, 1);
        // Two steps of rows 3, 0, 5 and 6, and the loss from the last rank to two others.
        const std::uint64_t edge_bytes = 2 * (3 + 0 + 5 + 6) * kWidth * sizeof(float);
        const std::uint64_t loss_bytes = group.rank() == 2 ? 2 * 2 * sizeof(double) : 0;
        RINGLET_CHECK_EQ(group.stats().bytes_sent,
                         edge_bytes * (group.rank() == 1 ? 2u : 1u) + loss_bytes, "bytes");
      },
      3);
}

TEST_CASE("a stage that fails ends all ranks, and is named") {
  const auto run = [](const comm::Group& group) {
    const auto forward = [&](int k, const Pipeline::Variables& x) -> Pipeline::Variables {
      if (group.rank() == 1 && k == 2) fail("stage 1 has no memory for micro-batch 2");
      const Variable y = autograd::square(x.empty() ? Variable(ones({2, kWidth}), true) : x[0]);
      return {group.rank() == 2 ? autograd::sum(y) : y};
    };
    Pipeline(group, {forward}, two_rows, {.micro_batches = 4}).run();
  };
  CHECK_THROWS_WITH_AS(comm::launch(run, 3),
                       "rank 1: stage 1 has no memory for micro-batch 2 (forward of micro-batch 2, "
                       "stage 1)",
                       Error);
}

TEST_CASE("a stage that does not use its input is refused, with the micro-batch") {
  const auto run = [](const comm::Group& group) {
    const auto forward = [&](int, const Pipeline::Variables&) -> Pipeline::Variables {
      const Variable y = autograd::square(Variable(ones({2, kWidth}), true));
      return {group.rank() == 1 ? autograd::sum(y) : y};
    };
    Pipeline(group, {forward}, two_rows, {.micro_batches = 2}).run();
  };
  CHECK_THROWS_WITH_AS(
      comm::launch(run, 2),
      "rank 1: [pipeline] micro-batch 0 has no f32 message to stage 0 (backward of "
      "micro-batch 0, stage 1)",
      Error);
}

TEST_CASE("a rank keeps as many micro-batches as the formula says") {
  constexpr int kRanks = 4, kMicroBatches = 8;
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b,
                                  PipelineKind::interleaved, PipelineKind::zero_bubble}) {
    CAPTURE(kPipelines(kind));
    const PipelineShape shape{kRanks, kMicroBatches, kind == PipelineKind::interleaved ? 2 : 1};
    std::vector<int> most(kRanks);
    comm::launch(
        [&](const comm::Group& group) {
          int kept = 0, &peak = most[static_cast<std::size_t>(group.rank())];
          const Variable weight(ones({1}), true), first(ones({1}), true);
          const auto forward = [&](int, const Pipeline::Variables& x) -> Pipeline::Variables {
            peak = std::max(peak, ++kept);
            // Lives as long as what the node has saved.
            const std::shared_ptr<void> saved(nullptr, [&](void*) { --kept; });
            return {autograd::record("keep", zeros({1}), {x.empty() ? first : x[0], weight},
                                     [saved](const Tensor& grad, autograd::Gradients& grads) {
                                       for (std::size_t i = 0; i < 2; ++i)
                                         if (grads[i].needed()) grads[i].set(grad.clone());
                                     })};
          };
          Pipeline pipeline(
              group,
              std::vector<Pipeline::Forward>(static_cast<std::size_t>(shape.chunks), forward),
              [](int, int) -> std::vector<Pipeline::Message> { return {{{1}}}; },
              {.kind = kind, .micro_batches = kMicroBatches});
          pipeline.run();
          RINGLET_CHECK_EQ(kept, 0, "kept after a step");
        },
        kRanks);
    CHECK(most == simulate_pipeline(make_pipeline(kind, shape), shape).peak_weight_inputs);
  }
}
