#include "profile_emulated.h"

#include <fmt/format.h>

namespace ringlet::bench {
namespace {

// Ops that share a kernel, such as casts and sums, add up.
std::string kernels_table(const std::map<std::string, OpCounters::Op>& ops, double steps) {
  std::map<std::string, OpCounters::Op> kernels;
  for (const auto& [label, op] : ops)
    for (const auto& [name, sum] : op.kernels) {
      kernels[name].kernels[name].add(sum);
      kernels[name].calls += sum.launches;
    }
  return counters_table(kernels, steps);
}

}  // namespace

void EmulatedProfile::run(const std::function<void(bool again)>& step) {
  OpCounters counters(device_);
  step(false);
  for (const auto& [label, op] : counters.ops()) ops_[label].add(op);
  ++steps_;
}

StepTimes EmulatedProfile::per_step() const {
  CounterSum all;
  for (const auto& [label, op] : ops_) all.add(op.sum());
  fmt::print(
      "\nA step on the emulated GPU: exact counts of PTX; times are *modelled* "
      "(bench/modelled_time.h), not measured.\n\n{}\nBy kernel:\n\n{}\n",
      counters_table(ops_, steps_), kernels_table(ops_, steps_));
  for (std::size_t i = 0; i < kDataSheets.size(); ++i)
    fmt::print("modelled, not measured: {} {:.3f} ms a step, {:.0f} pairs/s\n", kDataSheets[i].name,
               1e3 * all.seconds[i] / steps_, pairs_ * steps_ / all.seconds[i]);
  std::fflush(stdout);
  return {};
}

}  // namespace ringlet::bench
