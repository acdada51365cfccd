// Stable sorting by small keys, and runs of equal ones.
#pragma once

#include <cstdint>

#include "ringlet/core/base/host_device.h"
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

/// Runs of at least this many tokens are divided among threads. At most one such run begins within
/// this many places.
inline constexpr int kLongEmbeddingRun = 32;

/// A token's sort key: its id, or `rows`, larger than every id, if the table has no such row.
RINGLET_HOST_DEVICE std::uint32_t embedding_key(std::int32_t id, std::int64_t rows) {
  return static_cast<std::uint32_t>(id >= 0 && id < rows ? id : rows);
}

/// Whether a run of tokens with a row begins at `place`.
RINGLET_HOST_DEVICE bool begins_run(const std::uint32_t* keys, std::int64_t place,
                                    std::int64_t rows) {
  return keys[place] < rows && (place == 0 || keys[place - 1] != keys[place]);
}

/// Whether the run that begins at `place`, of `count` places in all, is a long one.
RINGLET_HOST_DEVICE bool is_long_run(const std::uint32_t* keys, std::int64_t place,
                                     std::int64_t count) {
  return place + kLongEmbeddingRun <= count && keys[place + kLongEmbeddingRun - 1] == keys[place];
}

/// The first place after the run that contains `place`. Most runs are short.
RINGLET_HOST_DEVICE std::int64_t end_of_run(const std::uint32_t* keys, std::int64_t place,
                                            std::int64_t count) {
  std::int64_t inside = place, step = 1;
  while (step < count - inside && keys[inside + step] == keys[place]) {
    inside += step;
    step *= 2;
  }
  std::int64_t behind = step < count - inside ? inside + step : count;
  while (behind - inside > 1) {
    const std::int64_t middle = inside + (behind - inside) / 2;
    (keys[middle] == keys[place] ? inside : behind) = middle;
  }
  return behind;
}

}  // namespace ringlet::cuda
