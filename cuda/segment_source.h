// Where the caching allocator gets memory from.
#pragma once

#include <cstddef>
#include <string>

namespace ringlet::cuda {

/// Gives and takes back whole segments.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// Null where there is no memory.
  virtual std::byte* take(std::size_t nbytes) = 0;
  /// After all work that was given to the device so far.
  virtual void give_back(std::byte* segment) = 0;
  /// What to say beside "out of memory": what the device has.
  virtual std::string situation() const = 0;
};

}  // namespace ringlet::cuda
