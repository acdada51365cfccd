// The assignment of tiles to warps or blocks. The host does not know the lengths of sentences,
// which are in device memory. It launches as many as there can be tiles; each looks up its tile,
// and some have none.
#pragma once

#include "ringlet/core/base/host_device.h"
#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/bad_input.h"
#include "ringlet/cuda/warp.h"

namespace ringlet::cuda {

inline constexpr int kTileRows = 16;   // queries (or keys) of a warp
inline constexpr int kBlockRows = 64;  // queries (or keys) of a block
inline constexpr int kTileThreads = kBlockRows / kTileRows * kLanes;  // of that block

/// The slots of sentences: one for each 2^shift tokens before it, and `each` for each sentence.
struct SlotRule {
  int rows;  // of a tile
  int shift, each;
};
/// A sentence has one slot more than whole tiles, which is enough for any length and any first
/// token.
inline constexpr SlotRule kEveryTile{kTileRows, 4, 1};

/// The first slot of sentence `s`.
RINGLET_HOST_DEVICE std::int64_t first_slot(const AttentionShape& shape, std::int64_t s,
                                            SlotRule rule = kEveryTile) {
  return (shape.cu_seqlens[s] >> rule.shift) + s * rule.each;
}
/// Slots of a head; heads times as many warps or blocks.
RINGLET_HOST_DEVICE std::int64_t attention_slots(const AttentionShape& shape,
                                                 SlotRule rule = kEveryTile) {
  if (shape.tokens <= 0 || shape.sentences <= 0) return 0;
  return (shape.tokens >> rule.shift) + shape.sentences * rule.each;
}

/// Elements from token to token in qkv and its gradient, and in a (T, heads d) tensor.
RINGLET_HOST_DEVICE std::int64_t out_stride(const AttentionShape& shape) {
  return shape.heads * shape.head_size;
}
RINGLET_HOST_DEVICE std::int64_t qkv_stride(const AttentionShape& shape) {
  return 3 * out_stride(shape);
}

/// A tile of one head of one sentence.
struct AttentionItem {
  std::int64_t index;  // head slots + slot, of the tile's first 16 rows
  int head;
  int first;         // token of the sentence
  int length;        // of the sentence
  int attended;      // keys that are not padding
  int begin;         // the tile's first row, counted from the sentence's first token
  int rows;          // 1 to the rule's rows; 0: there is nothing to do
  std::uint32_t id;  // of the sentence
  float scale;       // of the scores
  float kept;        // what dropout multiplies a weight by that it keeps

  // Part 0, 1, 2 of a (T, 3 heads d) tensor: q, k, v of this head in the sentence's first token.
  RINGLET_HOST_DEVICE std::int64_t part(const AttentionShape& shape, int which) const {
    return first * qkv_stride(shape) + (which * shape.heads + head) * shape.head_size;
  }
  // This head's place in a (T, heads d) tensor.
  RINGLET_HOST_DEVICE std::int64_t out(const AttentionShape& shape) const {
    return (first * shape.heads + head) * shape.head_size;
  }
  // And in the (heads, T) log-sum-exp.
  RINGLET_HOST_DEVICE std::int64_t lse(const AttentionShape& shape) const {
    return head * shape.tokens + first;
  }
};

/// q, k or v of this head in the sentence's first token.
template <class T>
RINGLET_HOST_DEVICE const T* part_of(const AttentionShape& shape, const AttentionItem& item,
                                     int which) {
  return static_cast<const T*>(shape.qkv) + item.part(shape, which);
}

/// The item of a head's slot, which belongs to `sentence`.
RINGLET_HOST_DEVICE AttentionItem attention_item(const AttentionShape& shape, int head,
                                                 std::int64_t slot, std::int64_t sentence,
                                                 SlotRule rule = kEveryTile) {
  AttentionItem item{};
  const std::int64_t tile = slot - first_slot(shape, sentence, rule);
  item.index =
      head * attention_slots(shape) + first_slot(shape, sentence) + tile * (rule.rows / kTileRows);
  item.head = head;
  if (!bounds_of(shape).hold(sentence)) return item;
  item.first = shape.cu_seqlens[sentence];
  item.length = shape.cu_seqlens[sentence + 1] - shape.cu_seqlens[sentence];
  item.attended = shape.lengths ? shape.lengths[sentence] : item.length;
  item.id = static_cast<std::uint32_t>(shape.sentence_ids ? shape.sentence_ids[sentence]
                                                          : static_cast<std::int32_t>(sentence));
  item.scale = static_cast<float>(shape.scale);
  item.kept = shape.dropout.threshold ? static_cast<float>(shape.dropout.scale) : 1;
  const std::int64_t begin = tile * rule.rows;
  if (begin >= item.length) return item;
  item.begin = static_cast<int>(begin);
  item.rows = item.length - item.begin < rule.rows ? item.length - item.begin : rule.rows;
  return item;
}

/// Warps take the first 64 rows of sentences with at most 64 keys, and blocks the other rows. So
/// the bits of a sentence do not depend on its padding, nor on other sentences.
RINGLET_HOST_DEVICE bool is_for_warp(const AttentionItem& item) {
  return item.attended <= kBlockRows && item.begin < kBlockRows;
}
/// A launch for both, of each head: blocks of `warps` tiles, and blocks of one tile of 64 rows.
struct MixedGrid {
  SlotRule of_warps, of_blocks;
  std::int64_t warp_blocks, blocks;
  bool blocks_first;  // the longer work first
};
inline MixedGrid mixed_grid(const AttentionShape& shape, int warps) {
  const bool is_long = shape.tokens >= kBlockRows * shape.sentences;  // on average
  MixedGrid grid{kEveryTile, {kBlockRows, 6, 1}, 0, 0, is_long};
  // A sentence that warps take has at most 4 tiles; one that blocks take has at least 65 tokens,
  // so that 32 tokens to a slot are enough.
  if (is_long) grid.of_warps = {kTileRows, 31, kBlockRows / kTileRows};
  if (!is_long) grid.of_blocks = {kBlockRows, 5, 0};
  grid.warp_blocks = (attention_slots(shape, grid.of_warps) + warps - 1) / warps;
  if (shape.tokens > kBlockRows) grid.blocks = attention_slots(shape, grid.of_blocks);
  return grid;
}

}  // namespace ringlet::cuda
