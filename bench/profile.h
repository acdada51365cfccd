// The time of a step by kernel, compared with the minimum work of each.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ceilings.h"
#include "floors.h"

namespace ringlet::bench {

/// All calls of one kernel (for products: of one form and size).
struct KernelSum {
  double calls = 0;
  double ms = 0;
  double floor_ms = 0;  // 0: the kernel has no floor
};
using KernelSums = std::map<std::string, KernelSum>;

/// Counted calls: seconds and minimum work. Those with one label differ in their work (lengths,
/// rows read), so floors are summed.
class Calls {
 public:
  void add(const Floor& floor, double seconds);
  /// The sums divided by the steps.
  KernelSums per_step(double steps, const Ceilings& ceilings) const;

 private:
  struct Sum {
    double count = 0, seconds = 0;
    Floor floor;
  };
  std::map<std::string, Sum> all_;
};

/// A step of the training thread. Time spent in nested calls counts once, so kernels, waits and the
/// rest add up to the step's time.
struct StepTimes {
  double step_ms = 0;  // by a separate clock
  KernelSums kernels;
  std::map<std::string, double> wait_ms;  // by cause; includes kernels that ran meanwhile
  double between_ms = 0;                  // in neither; idle time of an asynchronous device
  KernelSums beside;                      // on other threads of the process, concurrently
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

/// By the clock of the host, for kernels that are complete when they return: all kernel calls and
/// waits of the process during its lifetime.
std::unique_ptr<StepProfile> host_profile(Device device);
/// By the clock of an asynchronous device. Each step runs twice: first the kernels' floors are
/// computed from their operands, which synchronises; then it is timed, with the device held back
/// until all is enqueued, so that it does not wait for the host.
std::unique_ptr<StepProfile> device_profile(Device device);
/// For the emulated GPU and steps of `pairs`: prints counters and modelled times instead.
std::unique_ptr<StepProfile> emulated_profile(Device device, double pairs);

}  // namespace ringlet::bench
