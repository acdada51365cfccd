#include "runner.h"

#include <sched.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>

#include "ringlet/comm/host.h"
#include "ringlet/comm/launch.h"
#include "ringlet/core/parallel.h"

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

std::vector<Device> devices_of(const Plan& plan) {
  std::vector<Device> devices;
  for (int i = 0; plan.strategy == train::Strategy::dp && i < plan.devices; ++i)
    devices.push_back({DeviceType::cpu, i});
  return devices;
}

// Whether there are processors for so many threads; says once that there are not.
bool can_pin(int threads) {
  const int processors = static_cast<int>(comm::affinity().size());
  if (processors >= threads) return true;
  static bool said = false;
  if (!std::exchange(said, true))
    std::cerr << "throughput: " << threads << " threads share " << processors
              << " processors: nothing is pinned" << std::endl;
  return false;
}

// Each rank has its own processors, as many as it has threads.
void pin(int rank, int threads) {
  const std::vector<int> all = comm::affinity();
  cpu_set_t mine;
  CPU_ZERO(&mine);
  for (int i = rank * threads; i < (rank + 1) * threads; ++i)
    CPU_SET(all[static_cast<std::size_t>(i)], &mine);
  RINGLET_CHECK(sched_setaffinity(0, sizeof(mine), &mine) == 0, "cannot pin rank ", rank, ": ",
                std::strerror(errno));
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

void Runner::step(bool timed) {
  if (timed && sum_.step_ms.empty()) before_ = group_.stats();
  const auto start = Clock::now();
  const models::PackedBatch& batch = source_->next();
  const double data = ms_since(start);
  const Variable value = source_->loss()(batch);
  const double forward = ms_since(start);
  value.backward();
  const double backward = ms_since(start);
  optimizer_.step();
  optimizer_.zero_grad();
  const double all = ms_since(start);
  RINGLET_CHECK(std::isfinite(value.item()), "the loss is ", value.item());
  if (!timed) return;
  sum_.step_ms.push_back(all);
  sum_.phase_ms["1 data"].push_back(data);
  sum_.phase_ms["2 forward"].push_back(forward - data);
  sum_.phase_ms["3 backward"].push_back(backward - forward);
  sum_.phase_ms["4 optimizer"].push_back(all - backward);
  sum_.real_tokens += static_cast<double>(batch.real_tokens);
  sum_.padded_tokens += static_cast<double>(batch.padded_tokens);
  sum_.pairs += static_cast<double>(batch.rows);
  sum_.sentences += static_cast<double>(batch.sentences());
}

Measurement Runner::measured() const {
  Measurement out = sum_;
  const auto steps = static_cast<double>(sum_.step_ms.size());
  const comm::GroupStats after = group_.stats();
  out.real_tokens /= steps;
  out.padded_tokens /= steps;
  out.pairs /= steps;
  out.sentences /= steps;
  out.exposed_ms = 1e3 * (after.seconds_waited - before_.seconds_waited) / steps;
  out.wire_bytes = static_cast<double>(after.bytes_sent - before_.bytes_sent) / steps;
  out.peak_memory_bytes = peak_resident();
  out.peak_tensor_bytes = memory_stats(source_->model().device()).peak;
  out.hf_rows_per_pair = source_->hf_rows_per_pair();
  if (together_ && group_.size() > 1) {
    const comm::Algorithm asked = group_.options().algorithm;
    out.algorithm =
        concat(name(asked == comm::Algorithm::automatic ? comm::Algorithm::direct : asked),
               " over ", name(group_.options().transport));
  }
  return out;
}

Measurement run_round(const ThroughputOptions& options, const Plan& plan) {
  SharedText results;
  const bool pinned = can_pin(plan.devices * options.threads);
  const auto rank_main = [&](const comm::Group& group) {
    const bool dp = plan.strategy == train::Strategy::dp;
    if (pinned) pin(group.rank(), dp ? plan.devices * options.threads : options.threads);
    set_threads_per_device(options.threads);
    reset_peak_resident();
    Runner runner(options, plan, group);
    for (int i = 0; i < options.warmup; ++i) runner.step(false);
    group.barrier();
    for (int i = 0; i < options.steps; ++i) runner.step(true);
    std::vector<Measurement> ranks;
    for (const std::string& text : group.all_gather_bytes(runner.measured().to_text()))
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
  const bool pinned = can_pin(options.threads);
  const auto rank_main = [&](const comm::Group&) {
    if (pinned) pin(0, options.threads);
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
