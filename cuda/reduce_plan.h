// How a reduction is cut into pieces that run side by side. Sizes alone decide, so its bits are the
// same on every device.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ringlet::cuda {

/// Columns of a tile, and the threads that share a column, where the last dimension stays.
inline constexpr int kTileColumns = 32;
inline constexpr int kTileRows = 8;

/// n = chunks x length, but for the end of the last one. With more than one, their results are
/// reduced once more.
struct ReducePlan {
  std::int64_t chunks;
  std::int64_t length;
};

/// The plan of (outer, n, inner) over n; n and all products below 2^62. Chunks begin at multiples
/// of 256 where inner is 1, so that each is as aligned as its row.
inline ReducePlan plan_reduce(std::int64_t outer, std::int64_t n, std::int64_t inner) {
  const bool rows = inner == 1;
  // Warps or blocks that fill a large device, and what is worth one.
  const std::int64_t wanted = rows ? 4096 : 1024, least = rows ? 1024 : 64, step = rows ? 256 : 8;
  const std::int64_t tiles = rows ? outer : outer * ((inner + kTileColumns - 1) / kTileColumns);
  const std::int64_t most = std::max<std::int64_t>(1, std::min(wanted / tiles, n / least));
  const std::int64_t length =
      std::max<std::int64_t>(1, (n + most - 1) / most + step - 1) / step * step;
  const std::int64_t whole = std::max(length, step);
  return {std::max<std::int64_t>(1, (n + whole - 1) / whole), whole};
}

}  // namespace ringlet::cuda
