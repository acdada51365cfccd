// The assignment of tiles to warps. The host does not know the lengths of sentences, which are in
// device memory. It launches as many warps as there can be tiles of 16 rows; each warp looks up its
// tile, and some have none.
#pragma once

#include "ringlet/core/base/host_device.h"
#include "ringlet/core/ops/attention.h"

namespace ringlet::cuda {

inline constexpr int kTileRows = 16;  // queries (or keys) of a warp
/// The keys of a sentence whose tiles warps take alone. Blocks share the keys of longer ones.
inline constexpr int kShortKeys = 64;

/// The first slot of sentence `s`. A sentence has one slot more than whole tiles, which is enough
/// for any length and any first token.
RINGLET_HOST_DEVICE std::int64_t first_slot(const AttentionShape& shape, std::int64_t s) {
  return shape.cu_seqlens[s] / kTileRows + s;
}
/// Slots of a head; heads times as many warps.
RINGLET_HOST_DEVICE std::int64_t attention_slots(const AttentionShape& shape) {
  return shape.tokens > 0 && shape.sentences > 0 ? shape.tokens / kTileRows + shape.sentences : 0;
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
  std::int64_t index;  // head slots + slot
  int head;
  int first;         // token of the sentence
  int length;        // of the sentence
  int attended;      // keys that are not padding
  int begin;         // the tile's first row, counted from the sentence's first token
  int rows;          // 1 to 16 of them; 0: there is nothing to do
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

/// Padding does not count, so that a sentence has the same bits without it.
RINGLET_HOST_DEVICE bool is_long(const AttentionItem& item) { return item.attended > kShortKeys; }

/// q, k or v of this head in the sentence's first token.
template <class T>
RINGLET_HOST_DEVICE const T* part_of(const AttentionShape& shape, const AttentionItem& item,
                                     int which) {
  return static_cast<const T*>(shape.qkv) + item.part(shape, which);
}

/// The item of a head's slot, which belongs to `sentence`.
RINGLET_HOST_DEVICE AttentionItem attention_item(const AttentionShape& shape, int head,
                                                 std::int64_t slot, std::int64_t sentence) {
  AttentionItem item{};
  item.index = head * attention_slots(shape) + slot;
  item.head = head;
  if (!bounds_of(shape).hold(sentence)) return item;
  item.first = shape.cu_seqlens[sentence];
  item.length = shape.cu_seqlens[sentence + 1] - shape.cu_seqlens[sentence];
  item.attended = shape.lengths ? shape.lengths[sentence] : item.length;
  item.id = static_cast<std::uint32_t>(shape.sentence_ids ? shape.sentence_ids[sentence]
                                                          : static_cast<std::int32_t>(sentence));
  item.scale = static_cast<float>(shape.scale);
  item.kept = shape.dropout.threshold ? static_cast<float>(shape.dropout.scale) : 1;
  const std::int64_t begin = (slot - first_slot(shape, sentence)) * kTileRows;
  if (begin >= item.length) return item;
  item.begin = static_cast<int>(begin);
  item.rows = item.length - item.begin < kTileRows ? item.length - item.begin : kTileRows;
  return item;
}

}  // namespace ringlet::cuda
