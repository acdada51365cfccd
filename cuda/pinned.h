// Host memory that a device copies from and to asynchronously.
#pragma once

#include <cstddef>

#include "ringlet/core/device/device.h"

namespace ringlet::cuda {

/// Pinned for every device. Error, with the size, if the host has no such memory left. Free with
/// cudaFreeHost.
std::byte* allocate_pinned(Device device, std::size_t nbytes);

}  // namespace ringlet::cuda
