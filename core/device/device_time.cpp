#include "ringlet/core/device/device_time.h"

#include <chrono>

#include "ringlet/core/device/backend.h"

namespace ringlet {
namespace {

class HostTime final : public DeviceTime {
 public:
  double seconds_since(const DeviceTime& earlier) const override {
    const auto& other = dynamic_cast<const HostTime&>(earlier);
    return std::chrono::duration<double>(at_ - other.at_).count();
  }

 private:
  std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

}  // namespace

std::unique_ptr<DeviceTime> Backend::device_time(Device) { return std::make_unique<HostTime>(); }

std::unique_ptr<DeviceTime> device_time(Device device) {
  return backend(device.type).device_time(device);
}
bool is_asynchronous(Device device) { return backend(device.type).is_asynchronous(); }
void hold(Device device, double seconds) { backend(device.type).hold(device, seconds); }
void synchronize(Device device) { backend(device.type).synchronize(device); }

}  // namespace ringlet
