#include <fmt/format.h>

#include "emulated_counts.h"
#include "profile.h"

namespace ringlet::bench {
namespace {

// Ops that share a kernel, such as casts and sums, add up.
std::string kernels_table(const OpSums& ops, double steps) {
  OpSums kernels;
  for (const auto& [label, op] : ops)
    for (const auto& [name, sum] : op.kernels) {
      kernels[name].kernels[name].add(sum);
      kernels[name].calls += sum.launches;
    }
  return counters_table(kernels, steps);
}

/// Each step runs once, with a synchronisation after every op.
class EmulatedProfile final : public StepProfile {
 public:
  EmulatedProfile(Device device, double pairs) : device_(device), pairs_(pairs) {}

  void run(const std::function<void(bool again)>& step) override {
    OpCounters counters(device_);
    step(false);
    for (const auto& [label, op] : counters.ops()) ops_[label].add(op);
    ++steps_;
  }

  /// Prints; returns no times, since none was measured.
  StepTimes per_step() const override {
    CounterSum all;
    for (const auto& [label, op] : ops_) all.add(op.sum());
    fmt::print(
        "\nA step on the emulated GPU: exact counts of PTX; times are *modelled* "
        "(bench/modelled_time.h), not measured.\n\n{}\nBy kernel:\n\n{}\n",
        counters_table(ops_, steps_), kernels_table(ops_, steps_));
    for (std::size_t i = 0; i < kDataSheets.size(); ++i)
      fmt::print("modelled, not measured: {} {:.3f} ms a step, {:.0f} pairs/s\n",
                 kDataSheets[i].name, 1e3 * all.seconds[i] / steps_,
                 pairs_ * steps_ / all.seconds[i]);
    std::fflush(stdout);
    return {};
  }

 private:
  Device device_;
  double pairs_;
  double steps_ = 0;
  OpSums ops_;
};

}  // namespace

std::unique_ptr<StepProfile> emulated_profile(Device device, double pairs) {
  return std::make_unique<EmulatedProfile>(device, pairs);
}

}  // namespace ringlet::bench
