#include "profile_device.h"

#include <chrono>

#include "ringlet/core/error.h"

namespace ringlet::bench {

void DeviceProfile::run(const std::function<void(bool again)>& step) {
  const auto start = std::chrono::steady_clock::now();
  weigh(step);
  const std::chrono::duration<double> host = std::chrono::steady_clock::now() - start;
  hold(device_, host.count());  // longer than the host's time for a step without waits
  kernel_observer = this;
  const auto begin = device_time(device_);
  step(true);
  const auto end = device_time(device_);
  kernel_observer = nullptr;
  add_times(*begin, *end);
  ++steps_;
}

void DeviceProfile::weigh(const std::function<void(bool again)>& step) {
  floors_.clear();
  times_.clear();
  weighing_ = true;
  kernel_observer = this;
  step(false);
  kernel_observer = nullptr;
  weighing_ = false;
}

void DeviceProfile::before(const char*, const void*, Device device) {
  if (device != device_ || depth_++ > 0 || weighing_) return;
  times_.push_back({device_time(device), nullptr});
}

void DeviceProfile::after(const char* name, const void* args, Device device) {
  if (device != device_ || --depth_ > 0) return;
  if (weighing_)
    floors_.push_back(floor_of(name, args, device));
  else
    times_.back().end = device_time(device);
}

void DeviceProfile::add_times(const DeviceTime& begin, const DeviceTime& end) {
  RINGLET_CHECK_EQ(times_.size(), floors_.size(),
                   "[profile] the same step has another number of kernel calls");
  double idle = end.seconds_since(begin);
  for (std::size_t i = 0; i < times_.size(); ++i) {
    const double seconds = times_[i].end->seconds_since(*times_[i].begin);
    calls_.add(floors_[i], seconds);
    idle -= seconds;
  }
  between_ += idle;
}

StepTimes DeviceProfile::per_step() const {
  return {0, calls_.per_step(steps_, Ceilings(device_)), {}, 1e3 * between_ / steps_, {}};
}

}  // namespace ringlet::bench
