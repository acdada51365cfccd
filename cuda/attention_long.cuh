// The assignment of long sentences to blocks of four warps, 64 rows each.
#pragma once

#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/tile.cuh"

namespace ringlet::cuda {

/// Tiles of 64 rows of all long sentences, at most: each has one tile more than whole ones.
inline std::int64_t most_long_tiles(const AttentionShape& shape) {
  const std::int64_t longest = shape.tokens / (kShortKeys + 1);
  return longest == 0
             ? 0
             : shape.tokens / kTile + (longest < shape.sentences ? longest : shape.sentences);
}

/// Tile `index` of the long sentences in order, the same on all lanes of a warp; rows is 0 beyond
/// the last one. Its index is that of its first 16 rows.
__device__ __forceinline__ AttentionItem long_tile(const AttentionShape& shape, int head,
                                                   int index) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  int before = 0;
  for (std::int64_t first = 0; first < shape.sentences; first += kLanes) {
    const std::int64_t own = first + lane;
    int tiles = 0;
    if (own < shape.sentences) {
      const AttentionItem item = attention_item(shape, head, first_slot(shape, own), own);
      if (is_long(item)) tiles = (item.length + kTile - 1) / kTile;
    }
    int sum = tiles;
#pragma unroll
    for (int by = 1; by < kLanes; by *= 2) {
      const int other = __shfl_up_sync(kAllLanes, sum, static_cast<unsigned>(by));
      if (lane >= by) sum += other;
    }
    const unsigned found = __ballot_sync(kAllLanes, before + sum > index);
    if (found != 0) {
      const int owner = __ffs(static_cast<int>(found)) - 1;
      const int skipped = before + __shfl_sync(kAllLanes, sum - tiles, owner);
      const std::int64_t sentence = first + owner;
      const int begin = (index - skipped) * kTile;
      AttentionItem item =
          attention_item(shape, head, first_slot(shape, sentence) + begin / kTileRows, sentence);
      item.rows = item.length - begin < kTile ? item.length - begin : kTile;
      return item;
    }
    before += __shfl_sync(kAllLanes, sum, kLanes - 1);
  }
  return {};
}

/// The 16 rows of a warp; `rows` may be 0 or less.
__device__ __forceinline__ AttentionItem rows_of_warp(AttentionItem tile, int warp) {
  tile.begin += kTileRows * warp;
  const int left = tile.length - tile.begin;
  tile.rows = left < kTileRows ? left : kTileRows;
  return tile;
}

}  // namespace ringlet::cuda
