// Which weights dropout removes: counted by (sentence id, head, query, key / 4), as on the CPU.
#pragma once

#include "ringlet/core/base/philox.h"
#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/attention_tile.h"

namespace ringlet::cuda {

/// The words of the group of four keys that contains `key`.
RINGLET_HOST_DEVICE PhiloxBlock weight_words(const AttentionShape& shape, const AttentionItem& item,
                                             int query, int key) {
  return philox({{item.id, static_cast<std::uint32_t>(shape.first_head + item.head),
                  static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(key / 4)}},
                key_of(shape.dropout));
}

/// Calls drop(n, i) for each dropped score of a lane (queries, 32 keys from `key` on).
template <class Drop>
RINGLET_WARP_CODE void for_dropped(const AttentionShape& shape, const AttentionItem& item, int key,
                                   int lane, Drop drop) {
  RINGLET_UNROLL
  for (int half = 0; half < 2; ++half) RINGLET_UNROLL
  for (int r = 0; r < 2; ++r) {
    const PhiloxBlock block =
        weight_words(shape, item, item.begin + lane / 4 + 8 * r, key + 16 * half + 4 * (lane % 4));
    RINGLET_UNROLL
    for (int i = 0; i < 4; ++i)
      if (block.word[i] < shape.dropout.threshold) drop(2 * half + i / 2, 2 * r + i % 2);
  }
}

/// For a lane's transposed scores (keys 2g and 2g + 1 of the tile, 16 queries from `query` on).
/// Bits 4e to 4e + 3 are set for the kept ones of four keys under query 4t + 2 (g % 2) + e.
/// Lane ^ 4 has the bits of the other two queries, and scores of the other two keys.
RINGLET_WARP_CODE std::uint32_t kept_bits(const AttentionShape& shape, const AttentionItem& item,
                                          int query, int lane) {
  const int g = lane / 4;
  std::uint32_t bits = 0;
  RINGLET_UNROLL
  for (int e = 0; e < 2; ++e) {
    const PhiloxBlock block =
        weight_words(shape, item, query + column_of(g % 2, lane % 4, e), item.begin + g / 2 * 4);
    RINGLET_UNROLL
    for (int i = 0; i < 4; ++i)
      bits |= static_cast<std::uint32_t>(block.word[i] >= shape.dropout.threshold) << (4 * e + i);
  }
  return bits;
}
/// Whether element 2r + e of product n is kept, from the bits of this lane and of lane ^ 4.
RINGLET_WARP_CODE bool is_kept(std::uint32_t own, std::uint32_t other, int n, int i, int lane) {
  const int odd = lane / 4 % 2;
  const std::uint32_t bits = n == odd ? own : other;
  return bits >> (4 * (i % 2) + 2 * odd + i / 2) & 1u;
}

}  // namespace ringlet::cuda
