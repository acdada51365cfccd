// The time of a step by kernel, compared with the minimum work of each.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ringlet/core/device/device.h"

namespace ringlet::bench {

/// All calls of one kernel (for products: of one form and size).
struct KernelSum {
  double calls = 0;
  double ms = 0;
  double floor_ms = 0;  // 0: the kernel has no floor
};

/// A step of the training thread; kernels and the rest add up to its time.
struct StepTimes {
  double step_ms = 0;  // by a separate clock
  std::map<std::string, KernelSum> kernels;
  double between_ms = 0;  // in none; waits, and idle time of an asynchronous device
};
/// Slowest first, Markdown.
std::string to_markdown(const StepTimes& times);

/// Runs and profiles steps.
class StepProfile {
 public:
  virtual ~StepProfile() = default;
  /// Runs step(false), possibly followed by step(true), i.e. the same batch again. The last run is
  /// profiled.
  virtual void run(const std::function<void(bool again)>& step) = 0;
  /// Averages over the steps. Measures the device's limits (a second or two) for the floors.
  virtual StepTimes per_step() const = 0;
};

/// By the clock of the device, for kernels that the thread of the steps calls. On an asynchronous
/// device each step runs twice. First the kernels' floors are computed from their operands, which
/// synchronises. Then the step is timed, with the device held back until all is enqueued, so that
/// it does not wait for the host.
std::unique_ptr<StepProfile> timed_profile(Device device);

}  // namespace ringlet::bench
