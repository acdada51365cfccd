// Stable sorting by small keys.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringlet/core/device.h"

namespace ringlet::cuda {

/// Bits that keys in [0, largest] need; at least 1.
inline int key_bits(std::int64_t largest) {
  int bits = 1;
  while (largest >> bits > 0) ++bits;
  return bits;
}

/// n pairs in the order of their keys, pairs of one key in the order they come in. All pointers are
/// the device's; keys lie in [0, 2^bits); what is sorted does not overlap what is given.
void sort_pairs(Device device, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                const std::int32_t* values, std::int32_t* sorted_values, std::int64_t n, int bits);

}  // namespace ringlet::cuda
