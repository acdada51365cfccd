#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "profile.h"
#include "ringlet/core/device/kernel.h"
#include "ringlet/core/device/wait_observer.h"

namespace ringlet::bench {
namespace {

using Clock = std::chrono::steady_clock;

// The open calls of a thread, outermost first, each with the seconds spent in it but in no nested
// call. Time belongs to the innermost call; to `between` if none is open.
struct Nesting {
  bool stepping = false;
  Clock::time_point last;
  std::vector<double> open;
  double between = 0;

  void pass_time() {
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - std::exchange(last, now)).count();
    (open.empty() ? between : open.back()) += seconds;
  }
  void begin() {
    pass_time();
    open.push_back(0);
  }
  /// Ends the innermost call.
  double end() {
    pass_time();
    if (open.empty()) return 0;  // it began before profiling started
    const double seconds = open.back();
    open.pop_back();
    return seconds;
  }
};
thread_local Nesting nesting;

class HostProfile final : public StepProfile, public KernelObserver, public WaitObserver {
 public:
  explicit HostProfile(Device device) : device_(device) {
    kernel_observer = this;
    wait_observer = this;
  }
  ~HostProfile() override {
    kernel_observer = nullptr;
    wait_observer = nullptr;
  }

  void run(const std::function<void(bool again)>& step) override {
    nesting = Nesting();
    nesting.stepping = true;
    nesting.last = Clock::now();
    in_step_ = true;
    step(false);
    in_step_ = false;
    nesting.pass_time();
    nesting.stepping = false;
    const std::lock_guard lock(mutex_);
    between_ += nesting.between;
    ++steps_;
  }

  StepTimes per_step() const override {
    const Ceilings ceilings(device_);
    StepTimes out{0,
                  calls_.per_step(steps_, ceilings),
                  {},
                  1e3 * between_ / steps_,
                  beside_.per_step(steps_, ceilings)};
    for (const auto& [what, seconds] : waits_) out.wait_ms[what] = 1e3 * seconds / steps_;
    return out;
  }

  void before(const char*, const void*, Device) override { nesting.begin(); }
  void after(const char* name, const void* args, Device device) override {
    const double seconds = nesting.end();
    if (!in_step_) return;
    const Floor floor = floor_of(name, args, device);
    const std::lock_guard lock(mutex_);
    (nesting.stepping ? calls_ : beside_).add(floor, seconds);
  }
  void wait_begins(const char*) override { nesting.begin(); }
  void wait_ends(const char* what) override {
    const double seconds = nesting.end();
    if (!nesting.stepping) return;
    const std::lock_guard lock(mutex_);
    waits_[what] += seconds;
  }

 private:
  Device device_;
  // Excludes work between steps and the measurement of the ceilings.
  std::atomic<bool> in_step_ = false;
  std::mutex mutex_;
  double steps_ = 0;
  Calls calls_, beside_;
  std::map<std::string, double> waits_;  // seconds
  double between_ = 0;                   // seconds
};

}  // namespace

std::unique_ptr<StepProfile> host_profile(Device device) {
  return std::make_unique<HostProfile>(device);
}

}  // namespace ringlet::bench
