// A step's profile by the clock of its asynchronous device.
#pragma once

#include <memory>
#include <vector>

#include "profile.h"
#include "ringlet/core/device_time.h"
#include "ringlet/core/kernel.h"

namespace ringlet::bench {

/// Runs each step twice. The first run computes the kernels' floors from their operands, which
/// synchronises with the device. The second run is timed; the device is held back until all is
/// enqueued, so that it does not wait for the host.
class DeviceProfile final : public StepProfile, public KernelObserver {
 public:
  explicit DeviceProfile(Device device) : device_(device) {}
  ~DeviceProfile() override { kernel_observer = nullptr; }
  DeviceProfile(const DeviceProfile&) = delete;
  DeviceProfile& operator=(const DeviceProfile&) = delete;

  void run(const std::function<void(bool again)>& step) override;
  StepTimes per_step() const override;

  void before(const char* name, const void* args, Device device) override;
  void after(const char* name, const void* args, Device device) override;

 private:
  struct Call {
    std::unique_ptr<DeviceTime> begin, end;
  };
  void weigh(const std::function<void(bool again)>& step);
  void add_times(const DeviceTime& begin, const DeviceTime& end);

  Device device_;
  bool weighing_ = false;
  int depth_ = 0;              // nesting depth; nested calls are part of the outermost
  std::vector<Floor> floors_;  // of a step's calls, in order
  std::vector<Call> times_;
  Calls calls_;
  double steps_ = 0;
  double between_ = 0;  // seconds
};

}  // namespace ringlet::bench
