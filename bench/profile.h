// Where a step's time goes, kernel by kernel, against what each had to do at least.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "ceilings.h"
#include "floors.h"
#include "ringlet/core/device.h"

namespace ringlet::bench {

/// All calls of one kernel (of products: of one form and size).
struct KernelSum {
  double calls = 0;
  double ms = 0;
  double floor_ms = 0;  // 0: the kernel has no floor
};
using KernelSums = std::map<std::string, KernelSum>;

/// Calls as they are counted: seconds, and what they had to do at least.
class Calls {
 public:
  void add(const Floor& floor, double seconds);
  /// Divided by the steps.
  KernelSums per_step(double steps, const Ceilings& ceilings) const;

 private:
  struct Sum {
    double count = 0, seconds = 0, flops = 0, bytes = 0;
    DType dtype = DType::f32;
  };
  std::map<std::string, Sum> all_;
};

/// A step on the thread that trains, without what it did twice at a time: kernels, waits and
/// between add up to its time.
struct StepTimes {
  double step_ms = 0;  // by a clock of its own
  KernelSums kernels;
  std::map<std::string, double> wait_ms;  // for what; kernels that ran meanwhile are among these
  double between_ms = 0;                  // in neither: of a device that runs behind, idle
  KernelSums beside;                      // on other threads of the process, at the same time
};

/// Runs steps and sees what they do.
class StepProfile {
 public:
  virtual ~StepProfile() = default;
  /// Runs step(false), perhaps with step(true) behind it: the same batch again. The last is what
  /// is profiled.
  virtual void run(const std::function<void(bool again)>& step) = 0;
  /// Divided by the steps. Measures what the device can do (a second or two) for the floors.
  virtual StepTimes per_step() const = 0;
};

/// By the host's clock, where kernels are done when they return; or by the device's. Of the
/// emulated GPU, counters. `pairs`: of a step.
std::unique_ptr<StepProfile> make_profile(Device device, std::int64_t pairs);

/// Slowest first, Markdown.
std::string to_markdown(const StepTimes& times);

}  // namespace ringlet::bench
