#include "runner.h"

#include <sys/mman.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <utility>

#include "ringlet/comm/launch.h"
#include "ringlet/comm/launcher/cores.h"
#include "ringlet/core/parallel.h"
#include "ringlet/core/processors.h"

namespace ringlet::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The process's peak of resident memory; a forked process starts with its parent's.
void reset_peak_resident() { std::ofstream("/proc/self/clear_refs") << "5"; }
std::size_t peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  return 0;
}

// Of all threads of this process.
std::vector<std::string> processors_in_use() {
  std::set<std::string> all;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line, key = "Cpus_allowed_list:\t"; std::getline(status, line);)
      if (line.starts_with(key)) all.insert(line.substr(key.size()));
  }
  return {all.begin(), all.end()};
}

std::vector<Device> devices_of(const Plan& plan) {
  std::vector<Device> devices;
  for (int i = 0; plan.strategy == train::Strategy::dp && i < plan.devices; ++i)
    devices.push_back({DeviceType::cpu, i});
  return devices;
}

// Which processors each device's threads keep to; says once that there are too few.
std::vector<std::vector<int>> processors_for(int devices, int threads) {
  const std::vector<comm::Processor> processors = comm::processors();
  std::vector<std::vector<int>> out = comm::processors_of_devices(processors, devices, threads);
  static bool said = false;
  if (out.empty() && !std::exchange(said, true))
    std::cerr << "throughput: " << devices * threads << " threads share " << processors.size()
              << " processors: nothing is pinned" << std::endl;
  return out;
}

// Before this process starts threads: those of its devices, and this one.
void pin(const std::vector<std::vector<int>>& processors, int first_device, int devices) {
  if (processors.empty()) return;
  for (int i = 0; i < devices; ++i)
    set_processors({DeviceType::cpu, i}, processors[static_cast<std::size_t>(first_device + i)]);
  keep_to({DeviceType::cpu, 0});
}

// Text that a forked rank leaves for the process that started it.
class SharedText {
 public:
  SharedText()
      : bytes_(static_cast<char*>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    RINGLET_CHECK(bytes_ != MAP_FAILED, "no memory for the ranks' results");
  }
  ~SharedText() { munmap(bytes_, kBytes); }
  SharedText(const SharedText&) = delete;
  SharedText& operator=(const SharedText&) = delete;

  void write(const std::string& text) {
    RINGLET_CHECK(text.size() < kBytes, "results of ", text.size(), " bytes, expected at most ",
                  kBytes);
    std::memcpy(bytes_, text.data(), text.size());
  }
  std::string read() const { return bytes_; }

 private:
  static constexpr std::size_t kBytes = std::size_t{16} << 20;
  char* bytes_;
};

}  // namespace

Runner::Runner(const ThroughputOptions& options, const Plan& plan, const comm::Group& group)
    : source_(make_source(options, {group.rank(), group.size(), plan.devices / group.size()})),
      group_(group),
      together_(plan.together),
      strategy_(plan.strategy, source_->loss(), plan.together ? group : comm::Group(),
                devices_of(plan), options.dtype),
      optimizer_(source_->loss(), {.lr = 2e-5, .weight_decay = 0.01, .max_grad_norm = 1.0}) {
  source_->model().transformer()->set_compute_dtype(options.dtype);
  source_->model().set_forward_per_column(options.per_column);
}

void Runner::start_timing() {
  before_ = group_.stats();
  exchanged_before_ = strategy_.seconds_exchanging();
  used_before_ = resource_use();
}

std::array<double, kPhases.size()> Runner::step() {
  const auto start = Clock::now();
  {
    const ObservedWait observed("data");
    batch_ = &source_->next();
  }
  const double data = ms_since(start);
  const Variable value = source_->loss()(*batch_);
  const double forward = ms_since(start);
  value.backward();
  const double backward = ms_since(start);
  optimizer_.step();
  optimizer_.zero_grad();
  const double all = ms_since(start);
  RINGLET_CHECK(std::isfinite(value.item()), "the loss is ", value.item());
  return {data, forward - data, backward - forward, all - backward};
}

void Runner::timed_step(Profile* profile) {
  const auto start = Clock::now();
  if (profile) profile->step_begins();
  const auto spent = step();
  if (profile) profile->step_ends();
  sum_.step_ms.push_back(ms_since(start));
  for (std::size_t phase = 0; phase < kPhases.size(); ++phase)
    sum_.phase_ms[phase].push_back(spent[phase]);
  sum_.data_wait_ms += spent[0];
  sum_.real_tokens += static_cast<double>(batch_->real_tokens);
  sum_.padded_tokens += static_cast<double>(batch_->padded_tokens);
  sum_.pairs += static_cast<double>(batch_->rows);
  sum_.sentences += static_cast<double>(batch_->sentences());
}

Measurement Runner::measured() const {
  Measurement out = sum_;
  const auto steps = static_cast<double>(sum_.step_ms.size());
  const comm::GroupStats after = group_.stats();
  out.real_tokens /= steps;
  out.padded_tokens /= steps;
  out.pairs /= steps;
  out.sentences /= steps;
  out.data_wait_ms /= steps;
  const ResourceUse used = resource_use() - used_before_;
  out.page_faults = static_cast<double>(used.page_faults) / steps;
  out.mapped_bytes = static_cast<double>(used.mapped_bytes) / steps;
  out.threads_started = static_cast<double>(used.threads_started) / steps;
  out.context_switches = static_cast<double>(used.context_switches) / steps;
  const double exchanged = strategy_.seconds_exchanging() - exchanged_before_;
  out.exposed_ms = 1e3 * (after.seconds_waited - before_.seconds_waited + exchanged) / steps;
  out.wire_bytes = static_cast<double>(after.bytes_sent - before_.bytes_sent) / steps;
  out.processors = processors_in_use();
  out.peak_memory_bytes = peak_resident();
  out.peak_tensor_bytes = memory_stats(source_->model().device()).peak;
  out.hf_rows_per_pair = source_->hf_rows_per_pair();
  if (together_ && group_.size() > 1) {
    const comm::Algorithm asked = group_.options().algorithm;
    out.algorithm = str(name(asked == comm::Algorithm::automatic ? comm::Algorithm::direct : asked),
                        " over ", name(group_.options().transport));
  }
  return out;
}

Measurement run_round(const ThroughputOptions& options, const Plan& plan) {
  SharedText results;
  const auto processors = processors_for(plan.devices, options.threads);
  const auto rank_main = [&](const comm::Group& group) {
    const bool dp = plan.strategy == train::Strategy::dp;
    pin(processors, group.rank(), dp ? plan.devices : 1);
    set_threads_per_device(options.threads);
    reset_peak_resident();
    Runner runner(options, plan, group);
    for (int i = 0; i < options.warmup; ++i) runner.warm_up();
    group.barrier();
    Profile profile;
    profile.watch(options.profile);
    runner.start_timing();
    for (int i = 0; i < options.steps; ++i) runner.timed_step(options.profile ? &profile : nullptr);
    profile.watch(false);
    Measurement mine = runner.measured();
    if (options.profile && group.rank() == 0) {
      mine.times = profile.per_step();
      mine.times.step_ms = mean(mine.step_ms);
    }
    std::vector<Measurement> ranks;
    for (const std::string& text : group.all_gather_bytes(mine.to_text()))
      ranks.push_back(Measurement::from_text(text));
    if (group.rank() == 0) results.write(merge(ranks, plan.together).to_text());
  };
  comm::launch(rank_main, plan.ranks(),
               {.ranks = comm::Ranks::processes,
                .group = {.transport = options.transport,
                          .algorithm = options.algorithm,
                          .trace = options.trace ? &std::cerr : nullptr}});
  return Measurement::from_text(results.read());
}

double in_a_process(const ThroughputOptions& options, double (*measure)()) {
  SharedText result;
  const auto processors = processors_for(1, options.threads);
  const auto rank_main = [&](const comm::Group&) {
    pin(processors, 0, 1);
    set_threads_per_device(options.threads);
    result.write(std::to_string(measure()));
  };
  comm::launch(rank_main, 1, {.ranks = comm::Ranks::processes});
  return std::stod(result.read());
}

std::vector<Plan> plan_rows(const ThroughputOptions& options) {
  std::vector<Plan> rows;
  const auto add = [&](const std::string& name) {
    if (name == "unconnected")
      rows.push_back({name, train::Strategy::none, options.devices, false});
    else if (const train::Strategy strategy = train::parse_strategy(name);
             strategy == train::Strategy::none)
      rows.push_back({name, strategy, 1, true});
    else
      rows.push_back({name, strategy, options.devices, true});
  };
  for (const std::string& name : options.strategies) {
    if (name != "all") {
      add(name);
      continue;
    }
    add("none");
    if (options.devices > 1)
      for (const char* each : {"unconnected", "dp", "ddp", "zero1", "fsdp"}) add(each);
  }
  return rows;
}

}  // namespace ringlet::bench
