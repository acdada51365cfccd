#include <vector>

#include "profile.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/device/kernel.h"

namespace ringlet::bench {
namespace {

class DeviceProfile final : public StepProfile, public KernelObserver {
 public:
  explicit DeviceProfile(Device device) : device_(device) {}
  ~DeviceProfile() override { kernel_observer = nullptr; }

  void run(const std::function<void(bool again)>& step) override {
    const double start = steady_seconds();
    weigh(step);
    const double host = steady_seconds() - start;
    hold(device_, host);  // longer than the host's time for a step without waits
    kernel_observer = this;
    const auto begin = device_time(device_);
    step(true);
    const auto end = device_time(device_);
    kernel_observer = nullptr;
    add_times(*begin, *end);
    ++steps_;
  }
  StepTimes per_step() const override {
    return {0, calls_.per_step(steps_, Ceilings(device_)), {}, 1e3 * between_ / steps_, {}};
  }

  void before(const char*, const void*, Device device) override {
    if (device != device_ || depth_++ > 0 || weighing_) return;
    times_.push_back({device_time(device), nullptr});
  }
  void after(const char* name, const void* args, Device device) override {
    if (device != device_ || --depth_ > 0) return;
    if (weighing_)
      floors_.push_back(floor_of(name, args, device));
    else
      times_.back().end = device_time(device);
  }

 private:
  struct Call {
    std::unique_ptr<DeviceTime> begin, end;
  };

  void weigh(const std::function<void(bool again)>& step) {
    floors_.clear();
    times_.clear();
    weighing_ = true;
    kernel_observer = this;
    step(false);
    kernel_observer = nullptr;
    weighing_ = false;
  }

  void add_times(const DeviceTime& begin, const DeviceTime& end) {
    RINGLET_CHECK_EQ(times_.size(), floors_.size(),
                     "[profile] the same step has another number of kernel calls");
    between_ += end.seconds_since(begin);
    for (std::size_t i = 0; i < times_.size(); ++i) {
      const double seconds = times_[i].end->seconds_since(*times_[i].begin);
      calls_.add(floors_[i], seconds);
      between_ -= seconds;
    }
  }

  Device device_;
  bool weighing_ = false;
  int depth_ = 0;              // nesting depth; nested calls are part of the outermost
  std::vector<Floor> floors_;  // of a step's calls, in order
  std::vector<Call> times_;
  Calls calls_;
  double steps_ = 0;
  double between_ = 0;  // seconds
};

}  // namespace

std::unique_ptr<StepProfile> device_profile(Device device) {
  return std::make_unique<DeviceProfile>(device);
}

}  // namespace ringlet::bench
