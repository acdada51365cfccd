// The check of a device's memory limit that every allocator calls.
#pragma once

#include <cstddef>

#include "ringlet/core/backend.h"

namespace ringlet {

/// Error if `nbytes` in addition to `now` exceed the device's limit. It gives the requested bytes,
/// the bytes in use and the limit.
void check_limit(Device device, std::size_t nbytes, const MemoryStats& now);

}  // namespace ringlet
