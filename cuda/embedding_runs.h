// Runs of equal ids among sorted ones.
#pragma once

#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet::cuda {

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
