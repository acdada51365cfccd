#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/comm/launch.h"
#include "ringlet/comm/launcher/cores.h"
#include "ringlet/comm/trace.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/core/threads/processors.h"
#include "ringlet/train/report/timeline.h"
#include "runner.h"
#include "source.h"
#include "timed_ranks.h"

namespace ringlet::bench {
namespace {

// A forked process inherits its parent's peak.
void reset_peak_resident() { std::ofstream("/proc/self/clear_refs") << "5"; }

// The processors for each device's threads; reports once if there are too few.
std::vector<std::vector<int>> processors_for(int devices, int threads) {
  const std::vector<comm::Processor> processors = comm::processors();
  std::vector<std::vector<int>> out = comm::processors_of_devices(processors, devices, threads);
  static bool said = false;
  if (out.empty() && !std::exchange(said, true))
    std::cerr << "throughput: " << devices * threads << " threads share " << processors.size()
              << " processors: nothing is pinned" << std::endl;
  return out;
}

// Pins the threads of this process's devices, from `first` on, and this one; call it before they
// start.
void pin(const std::vector<std::vector<int>>& processors, int rank, Device first, int devices) {
  if (processors.empty()) return;
  for (int i = 0; i < devices; ++i)
    set_processors({first.type, first.index + i}, processors[static_cast<std::size_t>(rank + i)]);
  keep_to(first);
}

// A file without a name, which a forked rank writes for its parent.
using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

void write(const File& file, const std::string& text) {
  const bool good = std::fputs(text.c_str(), file.get()) >= 0 && std::fflush(file.get()) == 0;
  RINGLET_CHECK(good, "cannot write the ranks' results");
}

std::string read(const File& file) {
  std::string text;
  std::rewind(file.get());
  for (int c = 0; (c = std::fgetc(file.get())) != EOF;) text += static_cast<char>(c);
  return text;
}

comm::GroupOptions group_options(const ThroughputOptions& options) {
  static comm::TracePrinter printer(std::cerr);
  comm::CollectiveObserver* observer = options.trace ? &printer : nullptr;
  if (!options.timeline.empty()) observer = &train::Timeline::of_collectives();
  return {.transport = options.transport,
          .algorithm = options.algorithm,
          .timed = options.device.type != DeviceType::cpu,
          .observer = observer,
          .on_note = [](const std::string& line) { std::cerr << line << std::endl; }};
}

// Merges all ranks' measurements; the result is on rank 0.
std::string gathered(const Measurement& mine, const Plan& plan, const comm::Group& group) {
  std::vector<Measurement> ranks;
  for (const std::string& text : group.all_gather_bytes(mine.to_text()))
    ranks.push_back(Measurement::from_text(text));
  return group.rank() == 0 ? merge(ranks, plan.together).to_text() : "";
}

// Returns the first rank's result of `measure`. On GPUs ranks are threads of this process: a forked
// child cannot use its parent's driver.
std::string on_threads(const ThroughputOptions& options, int ranks, const MeasureRank& measure) {
  std::string result;
  const auto rank_main = [&](const comm::Group& group) {
    const DefaultDeviceGuard own(options.device_of(group.rank()));
    const std::string text = measure(group);
    if (group.rank() == 0) result = text;
  };
  comm::launch(rank_main, ranks, {.ranks = comm::Ranks::threads, .group = group_options(options)});
  return result;
}

std::string on_processes(const ThroughputOptions& options, int ranks, int devices_each,
                         const MeasureRank& measure) {
  const File result(std::tmpfile(), std::fclose);
  RINGLET_CHECK(result, "no file for the ranks' results");
  const auto processors = processors_for(ranks * devices_each, options.threads);
  const auto rank_main = [&](const comm::Group& group) {
    pin(processors, group.rank(), options.device, devices_each);
    set_threads_per_device(options.threads);
    reset_peak_resident();
    const std::string text = measure(group);
    if (group.rank() == 0) write(result, text);
  };
  comm::launch(rank_main, ranks,
               {.ranks = comm::Ranks::processes, .group = group_options(options)});
  return read(result);
}

// The launcher's processes are the ranks; those beyond `ranks` wait. All get the result.
std::string on_launched(const ThroughputOptions& options, int ranks, const MeasureRank& measure) {
  const comm::Group group = first_ranks(options.world, ranks, group_options(options));
  reset_peak_resident();
  const std::string text = options.world.rank() < ranks ? measure(group) : "";
  return options.world.all_gather_bytes(text)[0];
}

}  // namespace

std::string on_ranks(const ThroughputOptions& options, int ranks, const MeasureRank& measure,
                     int devices_each) {
  if (options.is_launched()) return on_launched(options, ranks, measure);
  return options.device.type == DeviceType::cpu
             ? on_processes(options, ranks, devices_each, measure)
             : on_threads(options, ranks, measure);
}

Measurement run_round(const ThroughputOptions& options, const Plan& plan, bool last) {
  const bool on_gpus = options.device.type != DeviceType::cpu;
  const bool records = on_gpus && last && !options.by_op() && plan.ranks() == 1;
  const bool in_this_process = on_gpus || options.is_launched();  // as earlier rows did
  for (int i = 0; in_this_process && i < plan.devices; ++i) reset_peak_memory(options.device_of(i));
  const std::size_t inherited = in_this_process ? 0 : prepare_model(options);
  const auto measure = [&](const comm::Group& group) {
    return gathered(measure_rank(options, plan, group, records ? options.idle_steps : 0), plan,
                    group);
  };
  Measurement found =
      Measurement::from_text(on_ranks(options, plan.ranks(), measure, plan.devices / plan.ranks()));
  found.peak_memory_bytes -= std::min(found.peak_memory_bytes, inherited);
  return found;
}

}  // namespace ringlet::bench
