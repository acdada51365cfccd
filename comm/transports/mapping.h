// Memory of another process of this host.
#pragma once

#include <cstddef>

#include "ringlet/comm/membership.h"

namespace ringlet::comm {

/// A mapping of the whole memory that `rank`, a process of this host, has open as `fd`.
class Mapping {
 public:
  /// Ends the group if the rank has ended or denies its memory.
  Mapping(const Membership& member, int rank, int process, int fd, bool writable);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// Error unless it has these bytes.
  std::byte* at(std::size_t offset, std::size_t nbytes) const;

 private:
  std::size_t nbytes_ = 0;
  void* data_;
};

}  // namespace ringlet::comm
