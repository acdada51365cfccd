// Times of a CUDA device: events of its current stream.
#pragma once

#include <memory>

#include "ringlet/core/device/device_time.h"

namespace ringlet::cuda {

std::unique_ptr<DeviceTime> device_time(Device device);
void hold(Device device, double seconds);

}  // namespace ringlet::cuda
