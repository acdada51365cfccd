// A shuffle without a shuffled array.
#pragma once

#include <cstdint>

namespace ringlet::train {

/// A pseudo-random permutation of 0 … size-1, a pure function of (size, key). Any position takes
/// O(1) time and no memory. It is a Feistel network over the next power of two, with cycle walking:
/// a result outside the range is permuted again. On average that takes at most two rounds of the
/// network.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t key);

  std::uint64_t size() const { return size_; }
  /// Element `index` of the shuffled range; index < size().
  std::uint64_t operator()(std::uint64_t index) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  std::uint64_t key_;
  unsigned low_bits_ = 0;
  std::uint64_t low_mask_ = 0;
  std::uint64_t high_mask_ = 0;
};

}  // namespace ringlet::train
