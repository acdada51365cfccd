// Where the caching allocator gets its memory.
#pragma once

#include <cstddef>
#include <string>

namespace ringlet::cuda {

/// Allocates and frees whole segments.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// Null if there is no memory.
  virtual std::byte* take(std::size_t nbytes) = 0;
  /// Waits for all work enqueued on the device so far.
  virtual void give_back(std::byte* segment) = 0;
  /// Text for an out-of-memory error: the memory that the device has.
  virtual std::string situation() const = 0;
};

}  // namespace ringlet::cuda
