// The relative bias in shared memory, and which weights dropout removes, as on the CPU
// (core/base/philox.h).
#pragma once

#include "ringlet/core/base/philox.h"
#include "ringlet/cuda/attention_plan.h"

namespace ringlet::cuda {

/// Fills the table with the bias of a head times `factor`; without a relative bias with zeros.
template <class S>
__device__ __forceinline__ void fill_bias(int lane, S* bias, const AttentionShape& shape, int head,
                                          DistanceRange range, S factor) {
  const S* table = static_cast<const S*>(shape.relative_bias);
  const int heads = static_cast<int>(shape.heads);
#pragma unroll 1
  for (int d = range.low + lane; d <= range.high; d += kLanes)
    bias[kMiddle + d] = table ? table[relative_position_bucket(d) * heads + head] * factor : 0;
  __syncwarp();
}

template <class S>
__device__ __forceinline__ void clear_distances(int lane, S* by_distance, DistanceRange range) {
#pragma unroll 1
  for (int d = range.low + lane; d <= range.high; d += kLanes) by_distance[kMiddle + d] = 0;
  __syncwarp();
}

/// Adds the sums by distance to sums by bucket, one bucket per lane.
template <class S>
__device__ __forceinline__ void store_buckets(int lane, S* buckets, const S* by_distance,
                                              DistanceRange range) {
  static_assert(kRelativeBuckets == kLanes);
  __syncwarp();
  const DistanceRange own = distances_of(lane, range);
  S total = 0;
#pragma unroll 1
  for (int d = own.low; d <= own.high; ++d) total += by_distance[kMiddle + d];
  buckets[lane] = total;
}

/// The counter of queries `query` and `query` ^ 8.
RINGLET_HOST_DEVICE std::uint32_t row_counter(int query) {
  const auto row = static_cast<std::uint32_t>(query);
  return (row / 16 * 8) | row % 8;
}
/// The words of queries with this counter and of keys 4 `group` to 4 `group` + 3.
RINGLET_HOST_DEVICE PhiloxBlock weight_words(const AttentionShape& shape, const AttentionItem& item,
                                             std::uint32_t queries, std::uint32_t group) {
  return philox<kWeightRounds>(
      {{item.id, static_cast<std::uint32_t>(shape.first_head) + static_cast<unsigned>(item.head),
        queries, group}},
      item.key);
}
/// The same in a tile from `query` and `key` on, which are multiples of 16: queries `pair` and
/// `pair` + 8, keys 4 `group` to 4 `group` + 3.
RINGLET_HOST_DEVICE PhiloxBlock tile_words(const AttentionShape& shape, const AttentionItem& item,
                                           int query, int key, unsigned pair, unsigned group) {
  return weight_words(shape, item, static_cast<unsigned>(query) / 2 + pair,
                      static_cast<unsigned>(key) / 4 + group);
}
/// The same for many keys of a query: the first three rounds, as far as no key is in them.
struct WeightRow {
  std::uint32_t first, second, third[3];
  PhiloxKey key;  // of the fourth round

  /// The words of keys 4 `group` to 4 `group` + 3.
  RINGLET_HOST_DEVICE PhiloxBlock words(int group) const {
    const PhiloxProduct p1 =
        philox_product(kPhiloxMultiplier1, first ^ static_cast<std::uint32_t>(group));
    const PhiloxProduct p0 = philox_product(kPhiloxMultiplier0, p1.high ^ second);
    return philox<kWeightRounds - 3>({{p1.low ^ third[0], third[1], p0.high ^ third[2], p0.low}},
                                     key);
  }
};
RINGLET_HOST_DEVICE WeightRow weight_row(const AttentionShape& shape, const AttentionItem& item,
                                         int query) {
  // The counters are (id, head, query, 0). Words 1 and 3 of a round are the lower halves of
  // products.
  const PhiloxKey key = item.key;
  const auto key_at = [&](std::uint32_t round) {
    return PhiloxKey{{key.word[0] + round * kPhiloxWeyl0, key.word[1] + round * kPhiloxWeyl1}};
  };
  const PhiloxProduct p0 = philox_product(kPhiloxMultiplier0, item.id);
  const PhiloxProduct p1 = philox_product(kPhiloxMultiplier1, row_counter(query));
  const auto head = static_cast<std::uint32_t>(shape.first_head + item.head);
  const PhiloxProduct q0 = philox_product(kPhiloxMultiplier0, p1.high ^ head ^ key.word[0]);
  const PhiloxProduct q1 = philox_product(kPhiloxMultiplier1, q0.high ^ p0.low ^ key_at(1).word[1]);
  return {p0.high ^ key.word[1],
          p1.low ^ key_at(1).word[0],
          {q1.high ^ key_at(2).word[0], q1.low, q0.low ^ key_at(2).word[1]},
          key_at(3)};
}
/// Whether a word keeps the weight of `query` + 8 r.
RINGLET_HOST_DEVICE bool keeps(std::uint32_t word, int r, const DropoutMask& dropout) {
  return (r == 0 ? word << 16 : word) >= dropout.threshold;
}

/// For a lane's scores of 16 keys from `key` on, which are four keys of queries g and g + 8.
__device__ __forceinline__ PhiloxBlock words_of_queries(const AttentionShape& shape,
                                                        const AttentionItem& item, int key,
                                                        int lane) {
  return tile_words(shape, item, item.begin, key, lane / 4, lane % 4);
}

/// Calls drop(n, i) for each dropped score of a lane (queries, 32 keys from `key` on).
template <class Drop>
__device__ __forceinline__ void for_dropped(const AttentionShape& shape, const AttentionItem& item,
                                            int key, int lane, Drop drop) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const PhiloxBlock block = words_of_queries(shape, item, key + 16 * half, lane);
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (!keeps(block.word[i], r, shape.dropout)) drop(2 * half + i / 2, 2 * r + i % 2);
  }
}

/// For a lane's transposed scores, whether dropout keeps the weight of key 2g + r and query 4t + i
/// of a tile.
struct KeptKeys {
  std::uint32_t bits[2];  // bit i of bits[r]

  __device__ __forceinline__ bool at(int i, int r) const { return bits[r] & 1u << i; }
};
/// For 16 queries from `query` on. Lane 8n + m draws for queries m and m + 8, and keys 4n to 4n
/// + 3.
__device__ __forceinline__ KeptKeys kept_of_keys(const AttentionShape& shape,
                                                 const AttentionItem& item, int query, int lane) {
  const PhiloxBlock block = tile_words(shape, item, query, item.begin, lane % 8, lane / 8);
  std::uint32_t kept[2][4];  // bits of all lanes, by half of the queries and by key
#pragma unroll
  for (int i = 0; i < 8; ++i)
    kept[i / 4][i % 4] = __ballot_sync(kAllLanes, keeps(block.word[i % 4], i / 4, shape.dropout));
  const bool upper = lane & 2, odd = lane & 4;  // t / 2, g % 2
  KeptKeys own;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const std::uint32_t even = upper ? kept[1][r] : kept[0][r];
    const std::uint32_t other = upper ? kept[1][2 + r] : kept[0][2 + r];
    own.bits[r] = (odd ? other : even) >> ((lane & 24) + lane % 2 * 4);
  }
  return own;
}

}  // namespace ringlet::cuda
