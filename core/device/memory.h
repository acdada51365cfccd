// The memory of a device: its blocks, its byte counts and the check of its limit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/device.h"

namespace ringlet {

/// A piece of device memory. On a CPU it lies in a memfd if the process has peers that can map it.
struct MemoryBlock {
  std::byte* data = nullptr;
  std::size_t nbytes = 0;     // usable bytes, >= the requested ones
  int fd = -1;                // descriptor of its mapping; -1: none
  std::size_t fd_offset = 0;  // offset in that mapping
  void* owner = nullptr;      // the allocator's bookkeeping
};

/// Byte counts since the program started. `reserved` was allocated by the system, `limit` is the
/// most that may be allocated (0: no limit).
struct MemoryStats {
  std::size_t allocated = 0;
  std::size_t peak = 0;
  /// Part of `allocated`: packed or rounded copies of parameters (Storage::sidecar, mirror).
  std::size_t sidecars = 0;
  std::size_t sidecars_peak = 0;
  /// Not part of `allocated`, summed over all devices of the type: memory that threads keep for
  /// operands that kernels pack.
  std::size_t scratch = 0;
  /// Part of `reserved`: memory of captured work, summed over the device's graphs.
  std::size_t graphs = 0;
  std::size_t reserved = 0;
  std::size_t limit = 0;
  std::uint64_t allocations = 0;
  std::uint64_t system_allocations = 0;
};

MemoryStats memory_stats(Device device);
void reset_peak_memory(Device device);
/// Limits all tensors of the device in this process to `nbytes` together; 0: no limit. An
/// allocation beyond it throws an Error with its size, the bytes in use and the limit. Each forked
/// rank has this limit separately and starts with no bytes in use.
void set_memory_limit(Device device, std::size_t nbytes);

/// Called by every allocator. Error if `nbytes` in addition to `now` exceed the device's limit. It
/// gives the requested bytes, the bytes in use and the limit.
inline void check_limit(Device device, std::size_t nbytes, const MemoryStats& now) {
  RINGLET_CHECK(now.limit == 0 || now.allocated + nbytes <= now.limit, "[allocate] ", nbytes,
                " bytes on ", device, ": ", now.allocated, " are in use, the limit is ", now.limit);
}

}  // namespace ringlet
