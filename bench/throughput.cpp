// The throughput table: pairs per second of a whole training step (forward, backward, clipping,
// AdamW), by strategy. See --help.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "device_option.h"
#include "device_seconds.h"
#include "options.h"
#include "report.h"
#include "ringlet.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/machine.h"
#include "runner.h"
#include "step_memory.h"

namespace ringlet::bench {
namespace {

models::EncoderConfig config_of(const ThroughputOptions& options) {
  if (!models::names_folder(options.model)) return models::EncoderConfig::named(options.model);
  return models::EncoderConfig::from_file(models::read_settings(options.model).transformer /
                                          "config.json");
}

double layer_parameters(const models::EncoderConfig& config) {
  return static_cast<double>(config.num_hidden_layers * layer_weights(config));
}

// Six per weight and token; looked-up embeddings cost nothing.
double flops_per_step(const ThroughputOptions& options, double tokens_per_pair) {
  return 6 * layer_parameters(config_of(options)) * tokens_per_pair *
         static_cast<double>(options.batch);
}

// FLOP/s of one large product.
double measure_gemm(Device device) {
  const Tensor a = uniform({512, 768}), b = uniform({768, 768});
  return 2.0 * 512 * 768 * 768 /
         device_seconds(device, [&] { static_cast<void>(matmul(a, b, {.trans_b = true})); });
}

std::size_t available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) return std::stoull(line.substr(13)) * 1024;
  return SIZE_MAX;
}

/// Weights, gradients and two moments that the ranks of this row hold together, and what is whole
/// on each of them while its unit is in use.
double state_bytes(const Plan& plan, const models::EncoderConfig& config) {
  const double embeddings = static_cast<double>(
      (config.vocab_size + config.max_position_embeddings) * config.hidden_size);
  const double parameters = layer_parameters(config) + embeddings;
  const double layer = layer_parameters(config) / static_cast<double>(config.num_hidden_layers);
  const double two_units = embeddings + layer, three_units = embeddings + 2 * layer;
  const int n = plan.devices;
  switch (plan.strategy) {
    case train::Strategy::none:
      return 16 * parameters * n;  // unconnected devices, too
    case train::Strategy::dp:
      return (16 + 8.0 * (n - 1)) * parameters;
    case train::Strategy::ddp:
      return 16 * parameters * n;
    case train::Strategy::zero1:
      return (8.0 * n + 8) * parameters;
    case train::Strategy::zero2:
      return (4.0 * n + 12) * parameters + 4.0 * n * two_units;
    case train::Strategy::fsdp:
      return 16 * parameters + 4.0 * n * (two_units + three_units);
  }
  return 0;
}

void check_memory(const std::vector<Plan>& plans, const models::EncoderConfig& config) {
  const auto available = static_cast<double>(available_memory());
  for (const Plan& plan : plans)
    if (const double needed = state_bytes(plan, config); needed > available)
      fail_input("--strategy ", plan.name, ": weights, gradients and optimizer state of ",
                 plan.devices, " device(s) need ", fmt::format("{:.1f}", needed / 1e9),
                 " GB, available are ", fmt::format("{:.1f}", available / 1e9), " GB");
}

std::string draw(const std::vector<Row>& rows, const ThroughputOptions& options) {
  train::BarChart chart{
      fmt::format("{}, batch {}, {}", options.model, options.batch, name(options.dtype)),
      "pairs per second",
      {}};
  for (const Row& row : rows)
    chart.bars.push_back({fmt::format("{} x {}", row.strategy, row.devices), row.pairs_per_s(),
                          fmt::format("{:.2f}x", row.pairs_per_s() / base_row(rows).pairs_per_s()),
                          ""});
  return train::draw_bars(chart);
}

// 1 where each has its own, and on a CPU.
int ranks_per_gpu(const ThroughputOptions& options) {
  if (options.device.type == DeviceType::cpu) return 1;
  const int gpus = backend(options.device.type).device_count();
  return (options.devices + gpus - 1) / gpus;
}

std::map<std::string, std::string> settings(const ThroughputOptions& options,
                                            const std::string& data) {
  return {{"model", options.model},
          {"recipe", options.recipe},
          {"padded", options.padded ? "yes" : "no"},
          {"forwards_per_step", options.per_column ? "one per column" : "one"},
          {"batch_per_device", std::to_string(options.batch)},
          {"data", data},
          {"device", str(options.device)},
          {"transport", std::string(comm::name(options.transport))},
          {"algorithm", std::string(comm::name(options.algorithm))},
          {"step_graphs", options.step_graphs},
          {"commit", cli::commit()},
          {"matmul_precision", options.precision},
          {"threads_per_device", std::to_string(options.threads)},
          {"ranks_per_gpu", std::to_string(ranks_per_gpu(options))},
          {options.device.type == DeviceType::cpu ? "isa" : "gpu", kernels_of(options.device)}};
}

/// The GPUs of this machine, and what joins them; null on a CPU. Some hundred ms a link.
nlohmann::ordered_json machine(const ThroughputOptions& options) {
  if (options.device.type == DeviceType::cpu) return nullptr;
  return cli::machine_json(cuda::info(), cli::check_links(options.device.type));
}

bool has_several(const std::vector<Plan>& plans) {
  return std::any_of(plans.begin(), plans.end(),
                     [](const Plan& plan) { return plan.together && plan.devices > 1; });
}

/// The link between the devices of the rows, where there are rows of several to be predicted from
/// one of one device.
std::optional<LinkTimes> link_of_rows(const ThroughputOptions& options,
                                      const std::vector<Plan>& plans) {
  const auto alone = [](const Plan& plan) { return plan.name == "none"; };
  if (!has_several(plans) || std::none_of(plans.begin(), plans.end(), alone)) return std::nullopt;
  return LinkTimes::from_text(on_ranks(options, options.devices, [&](const comm::Group& group) {
    return time_link(group, options.device_of(group.rank())).to_text();
  }));
}

std::string prediction(const std::optional<Predicted>& predicted, const std::vector<Plan>& plans) {
  if (predicted) return to_markdown(*predicted);
  if (!has_several(plans)) return "";
  return "\nNo speed-up is predicted: that takes the step of one device, --strategy none.\n";
}

int run(int argc, char** argv) {
  const auto options = parse_throughput(argc, argv);
  if (!options) return 0;
  set_matmul_precision(parse_matmul_precision(options->precision));
  // What cannot be written or held is refused before the minutes of work.
  for (const std::string& file : {options->json, options->svg})
    if (!file.empty()) AtomicFile probe(file);
  const std::vector<Plan> plans = plan_rows(*options);
  if (options->device.type == DeviceType::cpu) check_memory(plans, config_of(*options));
  const DataSummary data = describe_data(*options);
  const int steps = options->warmup + options->steps;
  fmt::print("{}, batch {} per device, {}, {} device(s) of {} thread(s), {} kernels, {}\n",
             options->model, options->batch, name(options->dtype), options->devices,
             options->threads, kernels_of(options->device), data.text);
  if (const int shared = ranks_per_gpu(*options); shared > 1)
    fmt::print("up to {} ranks share a GPU: what they do is shown, not how fast as many GPUs are\n",
               shared);
  const double padding = options->padded ? 2 : 1;
  const double flops = flops_per_step(*options, data.tokens_per_pair);
  const double seconds = options->rounds * static_cast<double>(plans.size()) *
                         (1 + 1.3 * padding * steps * flops / on_device(*options, measure_gemm));
  fmt::print("about {:.0f} s: {} round(s) of {} row(s), each {} steps, the first {} not timed\n",
             seconds, options->rounds, plans.size(), steps, options->warmup);
  std::fflush(stdout);
  const std::optional<LinkTimes> link = link_of_rows(*options, plans);

  std::vector<Row> rows;
  for (const Plan& plan : plans)
    rows.push_back(
        {plan.name, plan.devices, std::string(name(options->dtype)), "", plan.together, {}});
  for (int round = 0; round < options->rounds; ++round)
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const bool last = round + 1 == options->rounds && i + 1 == plans.size();
      rows[i].rounds.push_back(run_round(*options, plans[i], last));
      rows[i].algorithm = rows[i].rounds.back().algorithm;
    }
  std::optional<Predicted> predicted;
  if (link) predicted = predict(rows, config_of(*options), *link, *options);
  fmt::print("\n{}", to_markdown(rows));
  if (options->device.type != DeviceType::cpu) fmt::print("\n{}", replayed_line(rows));
  fmt::print("{}", prediction(predicted, plans));
  if (!options->json.empty())
    write_json(options->json, rows, settings(*options, data.text), predicted, machine(*options));
  if (!options->svg.empty()) write_file(options->svg, draw(rows, *options));
  return 0;
}

}  // namespace
}  // namespace ringlet::bench

int main(int argc, char** argv) {
  return ringlet::cli::exit_code("throughput", [&] { return ringlet::bench::run(argc, argv); });
}
