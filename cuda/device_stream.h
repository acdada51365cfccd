// core/device/stream.h for the cuda devices.
#pragma once

#include <memory>

#include "ringlet/core/device/stream.h"

namespace ringlet::cuda {

std::unique_ptr<DeviceStream> make_stream(Device device, StreamPriority priority);
std::unique_ptr<DeviceEvent> make_event(Device device);

}  // namespace ringlet::cuda
