// How a reduction is cut into pieces that run side by side: the same on every device.
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

/// The plan over n < 2^62 of (outer, n, inner), by n alone, so that a row's bits do not depend on
/// how many there are. Chunks begin at multiples of 256 where inner is 1 (`rows`): each is then as
/// aligned as its row.
inline ReducePlan plan_reduce(std::int64_t n, bool rows) {
  // What one chunk takes, how many the second launch takes, and what is shared out at a time.
  const std::int64_t alone = rows ? 16384 : 256, least = rows ? 4096 : 64;
  const std::int64_t most = rows ? 4096 : 1024, step = rows ? 256 : kTileRows;
  if (n <= alone) return {1, alone};
  const std::int64_t pieces = std::min(n / least, most);
  const std::int64_t length = ((n + pieces - 1) / pieces + step - 1) / step * step;
  return {(n + length - 1) / length, length};
}

}  // namespace ringlet::cuda
