// Memory of the host that a device copies from and to without a stop in between.
#pragma once

#include <cstddef>

#include "ringlet/core/device.h"

namespace ringlet::cuda {

/// Pinned for every device. Error where the host has no such memory left, with what was needed;
/// free with cudaFreeHost.
std::byte* allocate_pinned(Device device, std::size_t nbytes);

}  // namespace ringlet::cuda
