// Measures how long a device takes, by its own clock. The points are recorded in its streams and
// read in seconds(), so that the host does not wait for the device in between.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ringlet/core/device/device_time.h"

namespace ringlet::comm {

class DeviceClock {
 public:
  /// From its construction to its destruction, each on the thread's current stream. Null: no
  /// measurement.
  class Scope {
   public:
    Scope(DeviceClock* clock, Device device)
        : clock_(clock), device_(device), begin_(clock ? device_time(device) : nullptr) {}
    ~Scope() {
      if (clock_) clock_->add(std::move(begin_), device_time(device_));
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DeviceClock* clock_;
    Device device_;
    std::unique_ptr<DeviceTime> begin_;
  };

  /// The total of all scopes that have ended. Waits for the device.
  double seconds() {
    const std::lock_guard lock(mutex_);
    for (const auto& [begin, end] : std::exchange(spans_, {}))
      seconds_ += end->seconds_since(*begin);
    return seconds_;
  }

 private:
  using Point = std::unique_ptr<DeviceTime>;
  void add(Point begin, Point end) {
    const std::lock_guard lock(mutex_);
    spans_.emplace_back(std::move(begin), std::move(end));
  }

  std::mutex mutex_;
  std::vector<std::pair<Point, Point>> spans_;
  double seconds_ = 0;
};

}  // namespace ringlet::comm
