// The memory access of a warp with its checks: alignment, bounds, peer access, uninitialised bytes
// and races.
#pragma once

#include <array>

#include "memory.h"
#include "warp.h"

namespace ringlet::emulated {

/// The addresses of the active lanes and their bytes in host memory.
struct Accessed {
  alignas(64) std::array<Address, kLanes> address;
  std::array<std::byte*, kLanes> data;
};

/// Checks an access at in[0] + offset and counts its traffic. in[0] is a register or kNone. Throws
/// Fault.
Accessed access_memory(Warp& warp, const Instruction& at, Mask mask, bool writes);

/// After the access of cp.async to shared memory: until its lane has waited for the copy, each
/// access to the bytes is a fault.
void mark_pending(Warp& warp, const PendingCopy& copy);
/// Completes the copies of a lane's first `groups` groups: the lane writes them now.
void complete_copies(Warp& warp, int lane, std::uint32_t groups);

}  // namespace ringlet::emulated
