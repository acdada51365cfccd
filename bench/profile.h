// Where a step's time goes, kernel by kernel, against what each had to do at least.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/core/dtype.h"
#include "ringlet/core/kernel.h"
#include "ringlet/core/wait_observer.h"

namespace ringlet::bench {

/// All calls of one kernel (of products: of one form and size).
struct KernelSum {
  double calls = 0;
  double ms = 0;
  double floor_ms = 0;  // 0: the kernel has no floor
};
using KernelSums = std::map<std::string, KernelSum>;

/// A step on the thread that trains, without what it did twice at a time: kernels, waits and
/// between add up to its time.
struct StepTimes {
  double step_ms = 0;  // by a clock of its own
  KernelSums kernels;
  std::map<std::string, double> wait_ms;  // for what; kernels that ran meanwhile are among these
  double between_ms = 0;                  // neither in a kernel nor waiting
  KernelSums beside;                      // on other threads of the process, at the same time
};

/// Times all kernel calls and waits of the process while it is watching.
class Profile : public KernelObserver, public WaitObserver {
 public:
  Profile() = default;
  ~Profile() override { watch(false); }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  void watch(bool on) {
    kernel_observer = on ? this : nullptr;
    wait_observer = on ? this : nullptr;
  }
  /// Around a step, by the thread that trains.
  void step_begins();
  void step_ends();
  /// Divided by the steps. Measures what this machine can do (a second or two) for the floors.
  StepTimes per_step() const;

  void before(const char* name, const void* args, Device device) override;
  void after(const char* name, const void* args, Device device) override;
  void wait_begins(const char* what) override;
  void wait_ends(const char* what) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Calls {
    double count = 0, seconds = 0, flops = 0, bytes = 0;
    DType dtype = DType::f32;
  };
  KernelSums sums(const std::map<std::string, Calls>& calls) const;

  std::mutex mutex_;
  double steps_ = 0;
  std::map<std::string, Calls> calls_, beside_;
  std::map<std::string, double> waits_;  // seconds
  double between_ = 0;                   // seconds
};

/// Slowest first, Markdown.
std::string to_markdown(const StepTimes& times);

}  // namespace ringlet::bench
