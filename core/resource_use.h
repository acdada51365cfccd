// What a process has asked of the system so far. In a steady training step none of it grows: memory
// comes back from the allocators, threads sleep and are woken.
//
//   const ResourceUse before = resource_use();
//   step();
//   const ResourceUse took = resource_use() - before;
#pragma once

#include <cstdint>

namespace ringlet {

/// Counts, but for what says bytes.
struct ResourceUse {
  /// Pages that the system had to put under an address at its first use, or read back from disk.
  std::uint64_t page_faults = 0;
  std::uint64_t mappings = 0;      // that tensors and scratch did not find memory for
  std::uint64_t mapped_bytes = 0;  // by these
  std::uint64_t threads_started = 0;
  std::uint64_t context_switches = 0;  // waits, and turns that others took

  ResourceUse operator-(const ResourceUse& before) const {
    return {page_faults - before.page_faults, mappings - before.mappings,
            mapped_bytes - before.mapped_bytes, threads_started - before.threads_started,
            context_switches - before.context_switches};
  }
  ResourceUse& operator+=(const ResourceUse& more) {
    page_faults += more.page_faults;
    mappings += more.mappings;
    mapped_bytes += more.mapped_bytes;
    threads_started += more.threads_started;
    context_switches += more.context_switches;
    return *this;
  }
};

/// Of all threads of this process.
ResourceUse resource_use();

}  // namespace ringlet
