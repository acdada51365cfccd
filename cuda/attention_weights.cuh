// The relative bias in shared memory, and which weights dropout removes, as on the CPU
// (core/base/philox.h).
#pragma once

#include "ringlet/core/base/philox.h"
#include "ringlet/cuda/attention_plan.h"

namespace ringlet::cuda {

/// Fills the table with the bias of a head times `factor`.
template <class S>
__device__ __forceinline__ void fill_bias(int lane, S* bias, const AttentionShape& shape,
                                          std::int64_t head, DistanceRange range, S factor) {
  const S* table = static_cast<const S*>(shape.relative_bias) + head;
  for (int d = range.low + lane; d <= range.high; d += kLanes)
    bias[kMiddle + d] = table[relative_position_bucket(d) * shape.heads] * factor;
  __syncwarp();
}

template <class S>
__device__ __forceinline__ void clear_distances(int lane, S* by_distance, DistanceRange range) {
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
  for (int d = own.low; d <= own.high; ++d) total += by_distance[kMiddle + d];
  buckets[lane] = total;
}

/// The words of queries `query` and `query` + 8, and of the group of four keys that contains `key`;
/// query % 16 < 8.
RINGLET_HOST_DEVICE PhiloxBlock weight_words(const AttentionShape& shape, const AttentionItem& item,
                                             int query, int key) {
  return philox<kWeightRounds>({{item.id, static_cast<std::uint32_t>(shape.first_head + item.head),
                                 static_cast<std::uint32_t>(query / 16 * 8 + query % 8),
                                 static_cast<std::uint32_t>(key / 4)}},
                               key_of(shape.dropout));
}
/// The same for many keys of a query: the first three rounds, as far as no key is in them.
struct WeightRow {
  std::uint32_t first, second, third[3];
  PhiloxKey key;  // of the fourth round

  /// The words of keys 4 `group` to 4 `group` + 3.
  RINGLET_HOST_DEVICE PhiloxBlock words(int group) const {
    const std::uint64_t p1 =
        std::uint64_t{kPhiloxMultiplier1} * (first ^ static_cast<std::uint32_t>(group));
    const std::uint64_t p0 =
        std::uint64_t{kPhiloxMultiplier0} * (static_cast<std::uint32_t>(p1 >> 32) ^ second);
    return philox<kWeightRounds - 3>(
        {{static_cast<std::uint32_t>(p1) ^ third[0], third[1],
          static_cast<std::uint32_t>(p0 >> 32) ^ third[2], static_cast<std::uint32_t>(p0)}},
        key);
  }
};
RINGLET_HOST_DEVICE WeightRow weight_row(const AttentionShape& shape, const AttentionItem& item,
                                         int query) {
  // The counters are (id, head, query, 0). Words 1 and 3 of a round are the lower halves of
  // products.
  const PhiloxKey key = key_of(shape.dropout);
  const auto key_at = [&](std::uint32_t round) {
    return PhiloxKey{{key.word[0] + round * kPhiloxWeyl0, key.word[1] + round * kPhiloxWeyl1}};
  };
  const std::uint64_t p0 = std::uint64_t{kPhiloxMultiplier0} * item.id;
  const std::uint64_t p1 =
      std::uint64_t{kPhiloxMultiplier1} * static_cast<std::uint32_t>(query / 16 * 8 + query % 8);
  const auto head = static_cast<std::uint32_t>(shape.first_head + item.head);
  const std::uint64_t q0 = std::uint64_t{kPhiloxMultiplier0} *
                           (static_cast<std::uint32_t>(p1 >> 32) ^ head ^ key.word[0]);
  const std::uint64_t q1 =
      std::uint64_t{kPhiloxMultiplier1} *
      (static_cast<std::uint32_t>(q0 >> 32) ^ static_cast<std::uint32_t>(p0) ^ key_at(1).word[1]);
  return {static_cast<std::uint32_t>(p0 >> 32) ^ key.word[1],
          static_cast<std::uint32_t>(p1) ^ key_at(1).word[0],
          {static_cast<std::uint32_t>(q1 >> 32) ^ key_at(2).word[0], static_cast<std::uint32_t>(q1),
           static_cast<std::uint32_t>(q0) ^ key_at(2).word[1]},
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
  return weight_words(shape, item, item.begin + lane / 4, key + 4 * (lane % 4));
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

/// For a lane's transposed scores (keys 2g and 2g + 1 of the tile, 16 queries from `query` on). It
/// draws one block for itself and lanes ^ 2, ^ 4 and ^ 6; own_kept() takes the OR of theirs.
/// Bit 8j + 4r + i is set if query 4 (t % 2) + j + 8 r keeps the i-th of the four lanes' keys.
__device__ __forceinline__ std::uint32_t kept_of_keys(const AttentionShape& shape,
                                                      const AttentionItem& item, int query,
                                                      int lane) {
  const int g = lane / 4, t = lane % 4, j = g % 2 * 2 + t / 2;
  const PhiloxBlock block =
      weight_words(shape, item, query + t % 2 * 4 + j, item.begin + g / 2 * 4);
  std::uint32_t bits = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k)
    bits |= static_cast<std::uint32_t>(keeps(block.word[k % 4], k / 4, shape.dropout)) << k;
  return bits << 8 * j;
}
/// The lane's own bits of those: 8j + r is set if it keeps element 2r + e of product n, j = 2n + e.
__device__ __forceinline__ std::uint32_t own_kept(std::uint32_t bits, int lane) {
  return bits >> (lane % 4 / 2 * 4 + lane / 4 % 2 * 2);
}

}  // namespace ringlet::cuda
