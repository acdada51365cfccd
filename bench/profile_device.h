// A step's profile by the clock of its device, which runs behind the host.
#pragma once

#include <memory>
#include <vector>

#include "profile.h"
#include "ringlet/core/device_time.h"
#include "ringlet/core/kernel.h"

namespace ringlet::bench {

/// Each step is run twice: what its kernels have to do at least is read off their operands first,
/// which waits for the device; then they are timed, with the device held back so that it does not
/// wait for the host.
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
  int depth_ = 0;              // of calls within calls, which are part of the outermost
  std::vector<Floor> floors_;  // of the calls of a step, in their order
  std::vector<Call> times_;
  Calls calls_;
  double steps_ = 0;
  double between_ = 0;  // seconds
};

}  // namespace ringlet::bench
