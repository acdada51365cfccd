// How a reduction is divided into chunks that run in parallel, in the same way on every device.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ringlet::cuda {

/// Columns of a tile, and the threads that share a column, if the last dimension is kept.
inline constexpr int kReduceColumns = 32;
inline constexpr int kReduceRows = 8;

/// n = chunks x length, except that the last chunk may be shorter. The results of several chunks
/// are reduced once more.
struct ReducePlan {
  std::int64_t chunks;
  std::int64_t length;
};

/// The plan over n < 2^62 of (outer, n, inner). It depends on n alone, so that a row's bits do not
/// depend on the number of rows. If inner is 1 (`rows`), chunks begin at multiples of 256: each is
/// then as aligned as its row.
inline ReducePlan plan_reduce(std::int64_t n, bool rows) {
  // The most for a single chunk, the least of each of several, the most chunks, the granularity.
  const std::int64_t alone = rows ? 16384 : 256, least = rows ? 4096 : 64;
  const std::int64_t most = rows ? 4096 : 1024, step = rows ? 256 : kReduceRows;
  if (n <= alone) return {1, alone};
  const std::int64_t pieces = std::min(n / least, most);
  const std::int64_t length = ((n + pieces - 1) / pieces + step - 1) / step * step;
  return {(n + length - 1) / length, length};
}

}  // namespace ringlet::cuda
