#include "ringlet/core/device/device_time.h"

#include <chrono>

#include "ringlet/core/device/backend.h"

namespace ringlet {
namespace {

class HostTime final : public DeviceTime {
 public:
  double seconds_since(const DeviceTime& earlier) const override {
    return at_ - dynamic_cast<const HostTime&>(earlier).at_;
  }

 private:
  double at_ = steady_seconds();
};

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<DeviceTime> DeviceBackend::device_time(Device) {
  return std::make_unique<HostTime>();
}

std::unique_ptr<DeviceTime> device_time(Device device) {
  return backend(device.type).device_time(device);
}
bool is_asynchronous(Device device) { return backend(device.type).is_asynchronous(); }
void hold(Device device, double seconds) { backend(device.type).hold(device, seconds); }
void synchronize(Device device) { backend(device.type).synchronize(device); }

}  // namespace ringlet
