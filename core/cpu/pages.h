// Memory pages of the system: the only code that maps memory for tensors and scratch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringlet::cpu {

/// A separate mapping, filled with zeros; private ones are aligned to 2 MiB. `nbytes` is the
/// requested size, rounded up to a multiple of 2 MiB. Only unmap() releases it.
struct Pages {
  std::byte* data = nullptr;  // null: refused by the system, see errno
  std::size_t nbytes = 0;
  int fd = -1;  // descriptor with which other processes can map it; -1: private
};

/// Uses huge pages if the system allows them (huge_pages()).
Pages map_private(std::size_t nbytes);
Pages map_shared(std::size_t nbytes);
void unmap(const Pages& pages);

/// Whether the system backs private and shared mappings with pages of 2 MiB:
/// /sys/kernel/mm/transparent_hugepage. One TLB entry, or one page fault, then covers 512 small
/// pages.
struct HugePages {
  bool for_private;
  bool for_shared;
};
HugePages huge_pages();

/// Memory for tensors comes from shared mappings from now on; earlier allocations are unchanged.
/// Called before other processes read in place; a forked child starts without such peers.
void share_memory();

}  // namespace ringlet::cpu
