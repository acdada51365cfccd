// Random draws of data generators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringlet/train/data/hash.h"

namespace ringlet::train {

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
