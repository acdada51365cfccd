#include "ringlet/train/data/draws.h"

#include <bit>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

// Four rounds make a random-looking permutation of large ranges (Luby and Rackoff 1988). On small
// ranges a round function has few values, so more rounds are needed to reach all orders evenly.
constexpr std::uint64_t kRounds = 12;

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size), key_(key) {
  RINGLET_CHECK(size <= std::uint64_t{1} << 62, "[Permutation] size ", size, " exceeds 2^62");
  const auto bits = size < 2 ? 0u : static_cast<unsigned>(std::bit_width(size - 1));
  low_bits_ = (bits + 1) / 2;
  low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
  high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  std::uint64_t low = value & low_mask_;
  std::uint64_t high = value >> low_bits_;
  for (std::uint64_t round = 0; round < kRounds; round += 2) {
    low ^= mix64(key_ + round, high) & low_mask_;
    high ^= mix64(key_ + round + 1, low) & high_mask_;
  }
  return high << low_bits_ | low;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  RINGLET_CHECK(index < size_, "[Permutation] index ", index, " of ", size_);
  do {
    index = encrypt(index);
  } while (index >= size_);
  return index;
}

}  // namespace ringlet::train
