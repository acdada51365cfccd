// System resources that a process has used so far. In a steady training step none of them grows,
// except context switches: allocators reuse memory, and threads sleep and are woken.
//
//   const ResourceUse before = resource_use();
//   step();
//   const ResourceUse took = resource_use() - before;
#pragma once

#include <cstdint>

namespace ringlet {

/// Counts, except where the name says bytes.
struct ResourceUse {
  /// Pages that the system mapped at their first use or read from disk.
  std::uint64_t page_faults = 0;
  std::uint64_t mappings = 0;      // for tensors and scratch, beyond reused memory
  std::uint64_t mapped_bytes = 0;  // of these mappings
  std::uint64_t threads_started = 0;
  std::uint64_t context_switches = 0;  // voluntary (waits) and involuntary

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

/// The sums over all threads of this process.
ResourceUse resource_use();

}  // namespace ringlet
