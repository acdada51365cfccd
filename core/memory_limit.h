// What every allocator says where a device's memory is limited.
#pragma once

#include <cstddef>

#include "ringlet/core/backend.h"

namespace ringlet {

/// Error where `nbytes` more than `now` are beyond the limit of the device: what is wanted, what is
/// in use and the limit.
void check_limit(Device device, std::size_t nbytes, const MemoryStats& now);

}  // namespace ringlet
