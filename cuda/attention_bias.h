// The relative bias of a head by distance, and the sum of its gradient from distances to buckets.
// Both lie in a warp's shared memory, one element per distance = key - query from -159 to 159. All
// distances beyond +-128 have one value per side, so a tile further away reads the end of the
// table.
#pragma once

#include "ringlet/core/ops/relative_position.h"
#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/warp.h"

namespace ringlet::cuda {

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;
inline constexpr int kFar = 128;                    // beyond this distance the bias is constant
inline constexpr int kMiddle = kFar + 31;           // element of distance 0
inline constexpr int kDistances = 2 * kMiddle + 2;  // whole 16-byte vectors
struct DistanceRange {
  int low, high;  // inclusive
};

RINGLET_HOST_DEVICE int clamped(std::int64_t x, int low, int high) {
  return static_cast<int>(x < low ? low : x > high ? high : x);
}
/// For a tile of 16 keys and 16 queries: the distance of its first key and first query, clamped to
/// an equivalent tile inside the table.
RINGLET_HOST_DEVICE int tile_distance(std::int64_t key, std::int64_t query) {
  return clamped(key - query, -kFar - 16, kFar + 16);
}
/// The distances that the tiles from the first to the last key and query read. The arguments are
/// the tiles' first rows.
RINGLET_HOST_DEVICE DistanceRange tile_distances(std::int64_t first_key, std::int64_t last_key,
                                                 std::int64_t first_query,
                                                 std::int64_t last_query) {
  return {tile_distance(first_key, last_query) - 15, tile_distance(last_key, first_query) + 15};
}
/// For a tile of queries and all keys, 32 at a time.
RINGLET_HOST_DEVICE DistanceRange distances_of_queries(const AttentionItem& item) {
  return tile_distances(0, (item.attended - 1) / 32 * 32 + 16, item.begin, item.begin);
}
/// For a tile of keys and all queries, 16 at a time.
RINGLET_HOST_DEVICE DistanceRange distances_of_keys(const AttentionItem& item) {
  return tile_distances(item.begin, item.begin, 0, (item.length - 1) / 16 * 16);
}
/// For 32 consecutive distances: the lowest, clamped to an equivalent inside the table.
RINGLET_HOST_DEVICE int row_distance(std::int64_t lowest) {
  return clamped(lowest, -kFar - 31, kFar);
}

/// Fills the table with the bias of a head times `factor`.
template <class S, class W>
RINGLET_WARP_CODE void fill_bias(const W& warp, S* bias, const AttentionShape& shape,
                                 std::int64_t head, DistanceRange range, S factor) {
  const S* table = static_cast<const S*>(shape.relative_bias) + head;
  typename W::template Lanes<int> lanes{};
  warp.each(lanes, [&](int lane, int&) {
    for (int d = range.low + lane; d <= range.high; d += kLanes)
      bias[kMiddle + d] = table[relative_position_bucket(d) * shape.heads] * factor;
  });
  warp.sync();
}

/// The first |distance| of bucket 8 to 15 of a side, e.g. 91 / 2^(7/2 - bucket / 2 + 4), rounded
/// up.
RINGLET_HOST_DEVICE int first_of_bucket(int bucket) {
  if (bucket <= 8) return bucket;
  const int halvings = (15 - bucket) / 2, edge = bucket % 2 ? 91 : 64;
  return (edge + (1 << halvings) - 1) >> halvings;
}

/// The distances of a bucket inside `range`; low > high if it has none.
RINGLET_HOST_DEVICE DistanceRange distances_of(int bucket, DistanceRange range) {
  const int of_side = bucket % (kRelativeBuckets / 2);
  int low = first_of_bucket(of_side),
      high = of_side == 15 ? kMiddle : first_of_bucket(of_side + 1) - 1;
  if (bucket < kRelativeBuckets / 2) {
    const int nearest = low;
    low = -high;
    high = -nearest;
  } else if (of_side == 0) {
    return {1, 0};  // distance 0 belongs to the left side
  }
  return {low < range.low ? range.low : low, high > range.high ? range.high : high};
}

template <class S, class W>
RINGLET_WARP_CODE void clear_distances(const W& warp, S* by_distance, DistanceRange range) {
  typename W::template Lanes<int> lanes{};
  warp.each(lanes, [&](int lane, int&) {
    for (int d = range.low + lane; d <= range.high; d += kLanes) by_distance[kMiddle + d] = 0;
  });
  warp.sync();
}

/// Adds the sums by distance to sums by bucket, one bucket per lane.
template <class S, class W>
RINGLET_WARP_CODE void store_buckets(const W& warp, S* buckets, const S* by_distance,
                                     DistanceRange range) {
  static_assert(kRelativeBuckets == kLanes);
  warp.sync();
  typename W::template Lanes<int> lanes{};
  warp.each(lanes, [&](int lane, int&) {
    const DistanceRange own = distances_of(lane, range);
    S total = 0;
    for (int d = own.low; d <= own.high; ++d) total += by_distance[kMiddle + d];
    buckets[lane] = total;
  });
}

}  // namespace ringlet::cuda
