// The assignment of tiles to warps or blocks. The host does not know the lengths of sentences,
// which are in device memory. It launches as many as there can be tiles; each looks up its tile,
// and some have none.
#pragma once

#include "ringlet/core/base/host_device.h"
#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/bad_input.h"
#include "ringlet/core/ops/relative_position.h"

namespace ringlet::cuda {

inline constexpr int kLanes = 32;      // of a warp
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

// The relative bias of a head by distance, and the sum of its gradient from distances to buckets.
// Both lie in shared memory, one element per distance = key - query from -159 to 159. All distances
// beyond +-128 have one value per side, so a tile further away reads the end of the table.

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

}  // namespace ringlet::cuda
