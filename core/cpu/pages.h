// Pages of the system, the one place where memory for tensors and scratch is mapped.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringlet::cpu {

/// A mapping of its own, zeros, private ones aligned to 2 MiB; `nbytes` is what was asked for,
/// rounded up to a multiple of that. Never given back unless by unmap.
struct Pages {
  std::byte* data = nullptr;  // null: the system refused, and errno says why
  std::size_t nbytes = 0;
  int fd = -1;  // by which other processes can map them; -1: private
};

/// In huge pages where the system allows them (huge_pages()).
Pages map_private(std::size_t nbytes);
Pages map_shared(std::size_t nbytes);
void unmap(const Pages& pages);

/// Which mappings the system gives pages of 2 MiB, so that one entry of the TLB reaches 512 times
/// as far and a first touch costs one fault for 512: /sys/kernel/mm/transparent_hugepage.
struct HugePages {
  bool for_private;
  bool for_shared;
};
HugePages huge_pages();

/// From now on memory for tensors comes from shared mappings; what was allocated before stays as it
/// is. Called by what lets other processes read in place; a forked child begins without such peers.
void share_memory();

/// Mapped so far by this process, what was unmapped since included.
struct MappedTotal {
  std::uint64_t mappings;
  std::uint64_t nbytes;
};
MappedTotal mapped_total();

}  // namespace ringlet::cpu
