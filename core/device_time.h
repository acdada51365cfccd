// Time as a device has it, which may run behind the host that gives it work: what is measured is
// measured by it, not by the host's clock.
//
//   hold(device, 1e-3);  // the host gets ahead, so that the device never waits for it
//   const auto begin = device_time(device);
//   for (int i = 0; i < 10; ++i) work();
//   const double seconds = device_time(device)->seconds_since(*begin) / 10;
#pragma once

#include <memory>

#include "ringlet/core/device.h"

namespace ringlet {

class DeviceTime {
 public:
  virtual ~DeviceTime() = default;
  /// Waits until it has come. Both are of one device.
  virtual double seconds_since(const DeviceTime& earlier) const = 0;
};

/// When the device is done with what this thread has given it so far; on a CPU that is now.
std::unique_ptr<DeviceTime> device_time(Device device);
/// Keeps the device for about so long from what this thread gives it next; nothing on a CPU, which
/// is done with all it was given.
void hold(Device device, double seconds);
/// Whether the device may have work before it of which the host knows no result: who reads what it
/// was given last waits, and the device then waits for the host. A CPU does not.
bool runs_behind(Device device);
/// Waits for all work of the device, whoever gave it.
void synchronize(Device device);

}  // namespace ringlet
