// Which weights dropout removes, as on the CPU (core/base/philox.h).
#pragma once

#include "ringlet/core/base/philox.h"
#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/attention_tile.h"

namespace ringlet::cuda {

/// The words of queries `query` and `query` + 8, and of the group of four keys that contains `key`;
/// query % 16 < 8.
RINGLET_HOST_DEVICE PhiloxBlock weight_words(const AttentionShape& shape, const AttentionItem& item,
                                             int query, int key) {
  return philox<kWeightRounds>({{item.id, static_cast<std::uint32_t>(shape.first_head + item.head),
                                 static_cast<std::uint32_t>(query / 16 * 8 + query % 8),
                                 static_cast<std::uint32_t>(key / 4)}},
                               key_of(shape.dropout));
}
/// Whether a word keeps the weight of `query` + 8 r.
RINGLET_HOST_DEVICE bool keeps(std::uint32_t word, int r, const Dropout& dropout) {
  return (r == 0 ? word << 16 : word) >= dropout.threshold;
}

/// Calls drop(n, i) for each dropped score of a lane (queries, 32 keys from `key` on).
template <class Drop>
RINGLET_WARP_CODE void for_dropped(const AttentionShape& shape, const AttentionItem& item, int key,
                                   int lane, Drop drop) {
  RINGLET_UNROLL
  for (int half = 0; half < 2; ++half) {
    const PhiloxBlock block =
        weight_words(shape, item, item.begin + lane / 4, key + 16 * half + 4 * (lane % 4));
    RINGLET_UNROLL
    for (int r = 0; r < 2; ++r) RINGLET_UNROLL
    for (int i = 0; i < 4; ++i)
      if (!keeps(block.word[i], r, shape.dropout)) drop(2 * half + i / 2, 2 * r + i % 2);
  }
}

/// For a lane's transposed scores (keys 2g and 2g + 1 of the tile, 16 queries from `query` on). It
/// draws one block for itself and lanes ^ 2, ^ 4 and ^ 6; the OR of theirs is what is_kept() takes.
/// Bit 8j + 4r + i is set if query 4 (t % 2) + j + 8 r keeps the i-th of the four lanes' keys.
RINGLET_WARP_CODE std::uint32_t kept_bits(const AttentionShape& shape, const AttentionItem& item,
                                          int query, int lane) {
  const int g = lane / 4, t = lane % 4, j = g % 2 * 2 + t / 2;
  const PhiloxBlock block =
      weight_words(shape, item, query + t % 2 * 4 + j, item.begin + g / 2 * 4);
  std::uint32_t bits = 0;
  RINGLET_UNROLL
  for (int k = 0; k < 8; ++k)
    bits |= static_cast<std::uint32_t>(keeps(block.word[k % 4], k / 4, shape.dropout)) << k;
  return bits << 8 * j;
}
/// Whether element 2r + e of product n is kept.
RINGLET_WARP_CODE bool is_kept(std::uint32_t bits, int n, int i, int lane) {
  const int j = 2 * n + i % 2, first = lane % 4 / 2 * 4 + lane / 4 % 2 * 2;
  return bits >> (8 * j + first + i / 2) & 1u;
}

}  // namespace ringlet::cuda
