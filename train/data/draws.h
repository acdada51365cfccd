// Mixing of 64-bit keys: the source of every order and every draw in this folder.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ringlet/core/base/error.h"

namespace ringlet::train {

/// A bijection of 64-bit numbers in which every input bit reaches every output bit (the finaliser
/// of SplitMix64, Steele, Lea and Flood 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// A key made of several keys; their order matters.
template <class... More>
constexpr std::uint64_t mix64(std::uint64_t first, std::uint64_t second, More... more) {
  const std::uint64_t both = mix64(mix64(first) ^ second);
  if constexpr (sizeof...(more) == 0) {
    return both;
  } else {
    return mix64(both, static_cast<std::uint64_t>(more)...);
  }
}

/// A hash that is the same on every machine and in every release (FNV-1a, then mixed).
constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  return mix64(hash);
}

/// Maps 64 random bits to 0 … n-1; n is below 2^32 and the bias below n / 2^32.
constexpr std::uint64_t below(std::uint64_t n, std::uint64_t bits) {
  return (bits >> 32) * n >> 32;
}

/// A pseudo-random permutation of 0 … size-1, a pure function of (size, key). Any position takes
/// O(1) time and no memory. It is a Feistel network over the next power of two, with cycle walking:
/// a result outside the range is permuted again. On average that takes at most two rounds of the
/// network.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t key) : size_(size), key_(key) {
    RINGLET_CHECK(size <= std::uint64_t{1} << 62, "[Permutation] size ", size, " exceeds 2^62");
    const auto bits = size < 2 ? 0u : static_cast<unsigned>(std::bit_width(size - 1));
    low_bits_ = (bits + 1) / 2;
    low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
    high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
  }

  std::uint64_t size() const { return size_; }
  /// Element `index` of the shuffled range; index < size().
  std::uint64_t operator()(std::uint64_t index) const {
    RINGLET_CHECK(index < size_, "[Permutation] index ", index, " of ", size_);
    do {
      index = encrypt(index);
    } while (index >= size_);
    return index;
  }

 private:
  // Four rounds make a random-looking permutation of large ranges (Luby and Rackoff 1988). On small
  // ranges a round function has few values, so more rounds are needed to reach all orders evenly.
  static constexpr std::uint64_t kRounds = 12;

  std::uint64_t encrypt(std::uint64_t value) const {
    std::uint64_t low = value & low_mask_;
    std::uint64_t high = value >> low_bits_;
    for (std::uint64_t round = 0; round < kRounds; round += 2) {
      low ^= mix64(key_ + round, high) & low_mask_;
      high ^= mix64(key_ + round + 1, low) & high_mask_;
    }
    return high << low_bits_ | low;
  }

  std::uint64_t size_;
  std::uint64_t key_;
  unsigned low_bits_ = 0;
  std::uint64_t low_mask_ = 0;
  std::uint64_t high_mask_ = 0;
};

/// A stream of draws, a function only of its key. It uses only integer arithmetic and exact
/// divisions, so the draws are the same on every machine.
class Draws {
 public:
  explicit Draws(std::uint64_t key) : key_(key) {}

  std::uint64_t bits() { return mix64(key_, count_++); }
  /// One of 0 … n-1; n > 0.
  std::size_t index(std::size_t n) { return static_cast<std::size_t>(below(n, bits())); }
  /// A number in [low, high).
  double uniform(double low = 0, double high = 1) {
    constexpr double kStep = 1.0 / (std::uint64_t{1} << 53);
    return low + (high - low) * (static_cast<double>(bits() >> 11) * kStep);
  }
  bool chance(double probability) { return uniform() < probability; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[index(from.size())];
  }

 private:
  std::uint64_t key_;
  std::uint64_t count_ = 0;
};

}  // namespace ringlet::train
