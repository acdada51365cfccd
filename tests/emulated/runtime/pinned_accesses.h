// Pinned memory that enqueued copies use. Until the host has waited for a copy, the host must not
// touch bytes that the copy writes, nor change bytes that it reads. Kernels' accesses are not
// watched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "streams.h"

namespace ringlet::emulated {

/// Callers hold Streams::mutex().
class PinnedAccesses {
 public:
  /// `place`: the position that the copy gets in its stream.
  void add(const StreamOperation& copy, OperationOrder::Place place);
  /// Ends the accesses that the host has waited for. Bytes that it changed before are a fault.
  void end(const StreamClock& host);
  /// A fault if a copy writes the byte; its page becomes accessible.
  void touch(std::byte* address);

 private:
  struct Access {
    std::string name;  // of the call and its stream
    OperationOrder::Place place;
    PinnedBytes bytes;
    std::uint64_t digest = 0;       // of bytes that it reads
    bool changes_are_fine = false;  // another copy writes them
  };
  void protect(const Access& access);

  std::vector<Access> accesses_;
};

PinnedAccesses& pinned_accesses();

}  // namespace ringlet::emulated
