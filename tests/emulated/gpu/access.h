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

}  // namespace ringlet::emulated
