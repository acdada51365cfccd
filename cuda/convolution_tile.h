// How a block computes a tile of a convolution's product: each thread's loads and sums, and the
// number of pieces of a long inner dimension.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet::cuda {

inline constexpr int kConvTile = 64;      // rows and columns of a block's tile
inline constexpr int kConvDepth = 16;     // of the inner dimension at a time
inline constexpr int kConvSide = 4;       // a thread sums 4 x 4 elements
inline constexpr int kConvThreads = 256;  // 16 x 16 of them
inline constexpr int kConvLoads = kConvTile * kConvDepth / kConvThreads;

/// The place (k, other) in a (kConvDepth, kConvTile) tile that `thread` loads in round `r`.
/// Adjacent threads take neighbours along k if kAlongInner, else along the other dimension.
template <bool kAlongInner>
struct ConvLoad {
  static RINGLET_HOST_DEVICE int k(int thread, int r) {
    return kAlongInner ? thread % kConvDepth : thread / kConvTile + kConvThreads / kConvTile * r;
  }
  static RINGLET_HOST_DEVICE int other(int thread, int r) {
    return kAlongInner ? thread / kConvDepth + kConvThreads / kConvDepth * r : thread % kConvTile;
  }
};

/// Pieces of the inner dimension, all of `length` but the last.
struct ConvSplit {
  std::int64_t count, length;
};

inline std::int64_t conv_tiles(std::int64_t rows, std::int64_t columns) {
  return ((rows + kConvTile - 1) / kConvTile) * ((columns + kConvTile - 1) / kConvTile);
}

/// Enough pieces to fill a large device, none below 512 except the last; multiples of kConvDepth.
inline ConvSplit split_inner(std::int64_t rows, std::int64_t columns, std::int64_t inner) {
  const std::int64_t most =
      std::min(528 / std::max<std::int64_t>(1, conv_tiles(rows, columns)), inner / 512);
  const std::int64_t pieces = std::max<std::int64_t>(1, most);
  const std::int64_t steps = ((inner + pieces - 1) / pieces + kConvDepth - 1) / kConvDepth;
  const std::int64_t length = std::max<std::int64_t>(1, steps) * kConvDepth;
  return {std::max<std::int64_t>(1, (inner + length - 1) / length), length};
}

}  // namespace ringlet::cuda
