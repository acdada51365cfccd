// Device time. A device may be asynchronous, so durations are measured on it and not with the
// host's clock.
//
//   hold(device, 1e-3);  // delays the device, so that it never waits for the host
//   const auto begin = device_time(device);
//   for (int i = 0; i < 10; ++i) work();
//   const double seconds = device_time(device)->seconds_since(*begin) / 10;
#pragma once

#include <memory>

#include "ringlet/core/device/device_objects.h"

namespace ringlet {

/// Seconds of the host's steady clock, since a point of its own.
double steady_seconds();
/// The time when the device completes this thread's work so far; on a CPU, now.
std::unique_ptr<DeviceTime> device_time(Device device);
/// Delays the work that this thread enqueues next by about `seconds`. No effect on a CPU.
void hold(Device device, double seconds);
/// Whether the device is asynchronous: a call may return before its kernels have run. Reading a
/// result then waits, and leaves the device idle until the host enqueues more. False for CPUs.
bool is_asynchronous(Device device);
/// Waits for all work of the device, from any thread.
void synchronize(Device device);

}  // namespace ringlet
