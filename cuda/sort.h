// Stable sorting by small keys.
#pragma once

#include <cstdint>

#include "ringlet/core/device/device.h"

namespace ringlet::cuda {

/// The number of bits of keys in [0, largest]; at least 1.
inline int key_bits(std::int64_t largest) {
  int bits = 1;
  while (largest >> bits > 0) ++bits;
  return bits;
}

/// Sorts n pairs by key; pairs with equal keys keep their order. All pointers are the device's;
/// keys lie in [0, 2^bits); the output does not overlap the input.
void sort_pairs(Device device, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                const std::int32_t* values, std::int32_t* sorted_values, std::int64_t n, int bits);

}  // namespace ringlet::cuda
