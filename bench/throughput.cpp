// The throughput table: pairs per second of a whole training step (forward, backward, clipping,
// AdamW), by strategy. See --help.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iostream>

#include "emulated_counts.h"
#include "memory.h"
#include "options.h"
#include "program_options.h"
#include "report.h"
#include "ringlet.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/core/threads/processors.h"
#include "ringlet/models/folder.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/machine.h"
#include "ringlet/train/report/timeline.h"
#include "runner.h"
#include "source.h"
#include "timed_ranks.h"

namespace ringlet::bench {
namespace {

models::EncoderConfig config_of(const ThroughputOptions& options) {
  if (!models::names_folder(options.model)) return models::EncoderConfig::named(options.model);
  return models::EncoderConfig::from_file(models::read_settings(options.model).transformer /
                                          "config.json");
}

/// On a CPU, and under a launcher, ranks are processes.
std::string ranks_are(const ThroughputOptions& options) {
  return options.device.type == DeviceType::cpu || options.is_launched() ? "processes" : "threads";
}

/// When and on what a table is measured, as it begins.
struct Start {
  std::string date = now();
  std::string data;
  double load = average_load();  // processes that ran or waited for a processor, of a minute

  static std::string now() {
    const std::time_t time = std::time(nullptr);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", std::gmtime(&time));
    return text.data();
  }
  static double average_load() {
    double load = -1;
    return ::getloadavg(&load, 1) == 1 ? load : -1;
  }
};

Json settings(const ThroughputOptions& options, const Start& start) {
  const bool cpu = options.device.type == DeviceType::cpu;
  const models::EncoderConfig config = config_of(options);
  Json all{{"model", options.model},
           {"recipe", options.recipe},
           {"padded", options.padded ? "yes" : "no"},
           {"forwards_per_step", options.per_column() ? "one per column" : "one"},
           {"batch_per_device", std::to_string(options.batch)},
           {"logical_ranks", options.logical_ranks},
           {"data", start.data},
           {"rounds", options.rounds},
           {"steps", options.steps},
           {"warmup", options.warmup},
           {"date", start.date},
           {"cores", usable_processors()},
           {"load", start.load},
           {"device", str(options.device)},
           {"transport", comm::name(options.transport)},
           {"algorithm", comm::name(options.algorithm)},
           {"step_graphs", train::kStepGraphModes(options.step_graphs)},
           {"commit", cli::commit()},
           {"processor", cli::cpuinfo("model name")},
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
                   const Start& start) {
  const auto print = [](const std::string& line) { fmt::print("{}", wrapped(line)); };
  const int logical = options.logical_ranks;
  print(fmt::format("{}, batch {} per {}, {}, {} device(s) of {} thread(s), {} kernels, {}",
                    options.model, options.batch,
                    logical > 0 ? str("each of ", logical, " logical ranks") : "device",
                    name(options.dtype), options.devices, options.threads,
                    kernels_of(options.device), start.data));
  if (options.is_launched())
    print(fmt::format(
        "the ranks are the {} processes of a launcher{}", options.devices,
        options.gpus.empty() ? "" : ", on " + fmt::format("{}", fmt::join(options.gpus, ", "))));
  if (const int shared = options.ranks_per_gpu(); shared > 1)
    fmt::print("up to {} ranks share a GPU: what they do is shown, not how fast as many GPUs are\n",
               shared);
  if (is_emulated(options.device)) {
    fmt::print("an emulated GPU: no time below is a measurement\n");
    std::fflush(stdout);
    return;
  }
  print(fmt::format(
      "{} round(s) of {} row(s), each {} timed step(s) after the warm-up, load {:.2f} before them",
      options.rounds, plans.size(), options.steps, start.load));
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
      if (options.is_root())
        std::cerr << fmt::format("round {} of {}, row {} of {}: {}\n", round + 1, options.rounds,
                                 i + 1, plans.size(), plans[i].name)
                  << std::flush;
      rows[i].rounds.push_back(run_round(options, plans[i], last));
      if (round + 1 < options.rounds) rows[i].rounds.back().timeline.clear();
      rows[i].algorithm = rows[i].rounds.back().algorithm;
      if (mixes_peaks) rows[i].rounds.back().peak_memory_bytes = 0;
    }
  return rows;
}

std::vector<train::RankTimeline> timelines(const std::vector<Row>& rows) {
  std::vector<train::RankTimeline> all;
  for (const Row& row : rows)
    for (int rank = 0; const std::vector<train::Span>& spans : row.rounds.back().timeline)
      all.push_back({fmt::format("{}, rank {}", row.strategy, rank++), spans});
  return all;
}

void tell(const ThroughputOptions& options, const std::vector<Row>& rows, const std::string& link,
          const Start& start) {
  fmt::print("\n{}{}", options.wide ? to_wide_markdown(rows) : to_markdown(rows),
             to_profiles(rows));
  if (options.device.type != DeviceType::cpu) fmt::print("\n{}", wrapped(replayed_line(rows)));
  if (!options.json.empty()) {
    Json out = settings(options, start);
    if (!link.empty()) out["link"] = Json::parse(link);
    write_json(options.json, rows, std::move(out));
  }
  if (!options.timeline.empty()) train::TimelineFiles(options.timeline).write(timelines(rows));
}

void measure_table(const ThroughputOptions& options) {
  // Outputs and memory are checked before the minutes of work.
  std::vector<std::filesystem::path> files;
  if (!options.json.empty()) files.push_back(options.json);
  if (!options.timeline.empty()) {
    const train::TimelineFiles both(options.timeline);
    files.insert(files.end(), {both.trace, both.drawing});
  }
  for (const std::filesystem::path& file : files)
    if (options.is_root()) AtomicFile probe(file);
  const std::vector<Plan> plans = plan_rows(options);
  for (const Plan& plan : plans)
    if (options.device.type == DeviceType::cpu)
      check_memory(plan, config_of(options), options.share_here);
  const Start start{.data = describe_data(options)};
  if (options.is_root()) print_heading(options, plans, start);
  const std::string link = options.json.empty() ? "" : link_of_rows(options, plans);
  const std::vector<Row> rows = measure_rows(options, plans);
  if (options.is_root()) tell(options, rows, link, start);
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
