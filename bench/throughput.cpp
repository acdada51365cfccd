// The throughput table: pairs per second of a whole training step (forward, backward, clipping,
// AdamW), by strategy. See --help.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "device_seconds.h"
#include "emulated_counts.h"
#include "host_memory.h"
#include "link_time.h"
#include "options.h"
#include "program_options.h"
#include "report.h"
#include "ringlet.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/machine.h"
#include "runner.h"

namespace ringlet::bench {
namespace {

models::EncoderConfig config_of(const ThroughputOptions& options) {
  if (!models::names_folder(options.model)) return models::EncoderConfig::named(options.model);
  return models::EncoderConfig::from_file(models::read_settings(options.model).transformer /
                                          "config.json");
}

// Six per weight and token; embedding lookups count as nothing.
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

std::string draw(const std::vector<Row>& rows, const ThroughputOptions& options) {
  train::BarChart chart{
      fmt::format("{}, batch {}, {}", options.model, options.batch, name(options.dtype)),
      "pairs per second",
      {}};
  for (const Row& row : rows)
    chart.bars.push_back(
        {fmt::format("{} x {}", row.strategy, row.devices), row.pairs_per_s(),
         fmt::format("{:.2f}x", row.pairs_per_s() / base_row(rows).pairs_per_s())});
  return train::draw_bars(chart);
}

/// On a CPU, and under a launcher, ranks are processes.
std::string ranks_are(const ThroughputOptions& options) {
  return options.device.type == DeviceType::cpu || options.is_launched() ? "processes" : "threads";
}

nlohmann::ordered_json settings(const ThroughputOptions& options, const std::string& data) {
  const bool cpu = options.device.type == DeviceType::cpu;
  const models::EncoderConfig config = config_of(options);
  nlohmann::ordered_json all{{"model", options.model},
                             {"recipe", options.recipe},
                             {"padded", options.padded ? "yes" : "no"},
                             {"forwards_per_step", options.per_column ? "one per column" : "one"},
                             {"batch_per_device", std::to_string(options.batch)},
                             {"data", data},
                             {"rounds", options.rounds},
                             {"device", str(options.device)},
                             {"transport", comm::name(options.transport)},
                             {"algorithm", comm::name(options.algorithm)},
                             {"step_graphs", train::kStepGraphModes(options.step_graphs)},
                             {"commit", cli::commit()},
                             {"matmul_precision", options.precision},
                             {"threads_per_device", std::to_string(options.threads)},
                             {"ranks_per_gpu", std::to_string(options.ranks_per_gpu())},
                             {"ranks", ranks_are(options)},
                             {cpu ? "isa" : "gpu", kernels_of(options.device)},
                             {"encoder",
                              {{"layers", config.num_hidden_layers},
                               {"hidden", config.hidden_size},
                               {"intermediate", config.intermediate_size},
                               {"vocabulary", config.vocab_size},
                               {"positions", config.max_position_embeddings},
                               {"types", config.type_vocab_size}}}};
  if (!options.gpus.empty())
    all["gpus_of_ranks"] = fmt::format("{}", fmt::join(options.gpus, ", "));
  // The GPUs of this machine and their links: some hundred ms per link.
  if (!cpu) all["machine"] = cli::machine_json(cuda::info(), cli::check_links(options.device.type));
  return all;
}

/// The link between the devices of the rows as JSON, for bench/predicted.py. Empty without a row of
/// one device and one of several.
std::string link_of_rows(const ThroughputOptions& options, const std::vector<Plan>& plans) {
  const auto any = [&](const auto& fits) { return std::any_of(plans.begin(), plans.end(), fits); };
  if (!any([](const Plan& plan) { return plan.name == "none"; }) ||
      !any([](const Plan& plan) { return plan.together && plan.devices > 1; }))
    return "";
  return on_ranks(options, options.devices, [&](const comm::Group& group) {
    return time_link(group, options.device_of(group.rank()));
  });
}

void print_heading(const ThroughputOptions& options, const std::vector<Plan>& plans,
                   const DataSummary& data) {
  fmt::print("{}, batch {} per device, {}, {} device(s) of {} thread(s), {} kernels, {}\n",
             options.model, options.batch, name(options.dtype), options.devices, options.threads,
             kernels_of(options.device), data.text);
  if (options.is_launched())
    fmt::print(
        "the ranks are the {} processes of a launcher{}\n", options.devices,
        options.gpus.empty() ? "" : ", on " + fmt::format("{}", fmt::join(options.gpus, ", ")));
  if (const int shared = options.ranks_per_gpu(); shared > 1)
    fmt::print("up to {} ranks share a GPU: what they do is shown, not how fast as many GPUs are\n",
               shared);
  if (is_emulated(options.device)) {
    fmt::print("an emulated GPU: no time below is a measurement\n");
    std::fflush(stdout);
    return;
  }
  const int steps = options.warmup + 1 + options.steps;  // the last of the warm-up at least twice
  const double flops = flops_per_step(options, data.tokens_per_pair);
  const double seconds =
      options.rounds * static_cast<double>(plans.size()) *
      (1 + 1.3 * (options.padded ? 2 : 1) * steps * flops / on_device(options, measure_gemm));
  fmt::print("about {:.0f} s: {} round(s) of {} row(s), each {} steps, the first {} not timed\n",
             seconds, options.rounds, plans.size(), steps, options.warmup);
  std::fflush(stdout);
}

std::vector<Row> measure_rows(const ThroughputOptions& options, const std::vector<Plan>& plans) {
  // A launcher's process runs all rows, and keeps memory of earlier ones.
  const bool mixes_peaks =
      options.is_launched() && options.device.type == DeviceType::cpu && plans.size() > 1;
  std::vector<Row> rows;
  for (const Plan& plan : plans)
    rows.push_back(
        {plan.name, plan.devices, std::string(name(options.dtype)), "", plan.together, {}});
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const bool last = round + 1 == options.rounds && i + 1 == plans.size();
      rows[i].rounds.push_back(run_round(options, plans[i], last));
      rows[i].algorithm = rows[i].rounds.back().algorithm;
      if (mixes_peaks) rows[i].rounds.back().peak_memory_bytes = 0;
    }
  return rows;
}

void tell(const ThroughputOptions& options, const std::vector<Row>& rows, const std::string& link,
          const DataSummary& data) {
  fmt::print("\n{}", to_markdown(rows));
  if (options.device.type != DeviceType::cpu) fmt::print("\n{}", replayed_line(rows));
  if (!options.json.empty()) {
    nlohmann::ordered_json out = settings(options, data.text);
    if (!link.empty()) out["link"] = nlohmann::ordered_json::parse(link);
    write_json(options.json, rows, std::move(out));
  }
  if (!options.svg.empty()) write_file(options.svg, draw(rows, options));
}

void measure_table(const ThroughputOptions& options) {
  // Outputs and memory are checked before the minutes of work.
  if (options.speaks())
    for (const std::string& file : {options.json, options.svg})
      if (!file.empty()) AtomicFile probe(file);
  const std::vector<Plan> plans = plan_rows(options);
  if (options.device.type == DeviceType::cpu)
    check_memory(plans, config_of(options), options.share_here);
  const DataSummary data = describe_data(options);
  if (options.speaks()) print_heading(options, plans, data);
  const std::string link = options.json.empty() ? "" : link_of_rows(options, plans);
  const std::vector<Row> rows = measure_rows(options, plans);
  if (options.speaks()) tell(options, rows, link, data);
}

int run(int argc, char** argv) {
  auto options = parse_throughput(argc, argv);
  if (!options) return 0;
  set_matmul_precision(parse_matmul_precision(options->precision));
  comm::run_from_env([&](const comm::Group& launched) {
    options->join(launched);
    measure_table(*options);
  });
  return 0;
}

}  // namespace
}  // namespace ringlet::bench

int main(int argc, char** argv) {
  return ringlet::cli::exit_code("throughput", [&] { return ringlet::bench::run(argc, argv); });
}
