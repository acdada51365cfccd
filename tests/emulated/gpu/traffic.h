// The memory traffic of a warp's access: 32-byte sectors of global memory, passes over the banks of
// shared memory.
#pragma once

#include <array>
#include <cstddef>

#include "memory.h"

namespace ringlet::emulated {

/// The addresses of the active lanes of one access.
class Addresses {
 public:
  void add(Address address) { addresses_[used_++] = address; }
  /// Adds the traffic of accesses of `nbytes` per lane by `operation`.
  void count(Count& to, Space space, std::uint32_t nbytes, OperationId operation, bool writes);

 private:
  /// Replaces the addresses by the distinct sectors.
  void find_sectors();
  std::uint64_t touched(OperationId operation, bool writes) const;
  std::uint64_t passes(std::uint32_t nbytes);

  std::array<Address, kLanes> addresses_;
  std::size_t used_ = 0;
};

}  // namespace ringlet::emulated
