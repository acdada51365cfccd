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
inline constexpr int kBlockTiles = kBlockRows / kTileRows;
inline constexpr int kTileThreads = kBlockTiles * kLanes;  // of that block

/// The slots of sentences: one for each 2^shift tokens before it, and `each` for each sentence.
struct SlotRule {
  int shift, each;
};
/// Slots of 16 rows. A sentence has one slot more than whole tiles, which is enough for any length
/// and any first token.
inline constexpr SlotRule kEveryTile{4, 1};

/// The first slot of sentence `s`, which begins at `token`.
RINGLET_HOST_DEVICE int first_slot(int token, int s, SlotRule rule = kEveryTile) {
  return (token >> rule.shift) + s * rule.each;
}
/// Slots of a head; heads times as many warps or blocks. Launches refuse more than 32 bits hold.
RINGLET_HOST_DEVICE int attention_slots(const AttentionShape& shape, SlotRule rule = kEveryTile) {
  return first_slot(static_cast<int>(shape.tokens), static_cast<int>(shape.sentences), rule);
}
/// The slots of a launch.
struct Slots {
  SlotRule rule;
  int count;              // of a head
  std::uint32_t density;  // sentences to 2^26 slots: the search for a slot's sentence starts there
};
inline Slots slots_of(const AttentionShape& shape, SlotRule rule = kEveryTile) {
  const int count = attention_slots(shape, rule);
  const std::uint64_t density =
      count > 0 ? (static_cast<std::uint64_t>(shape.sentences) << 26) / static_cast<unsigned>(count)
                : 0;
  return {rule, count, static_cast<std::uint32_t>(density < 0xffffffff ? density : 0xffffffff)};
}
/// The sentence of a slot: its index, its first token, and the token after its last.
struct SlotSentence {
  int index, begin, end;
};

/// Elements from token to token in qkv and its gradient, and in a (T, heads d) tensor.
RINGLET_HOST_DEVICE std::int64_t out_stride(const AttentionShape& shape) {
  return shape.heads * shape.head_size;
}
RINGLET_HOST_DEVICE std::int64_t qkv_stride(const AttentionShape& shape) {
  return 3 * out_stride(shape);
}

/// A tile of one head of one sentence.
struct AttentionItem {
  int head, sentence;
  int first;         // token of the sentence
  int length;        // of the sentence
  int attended;      // keys that are not padding
  int begin;         // the tile's first row, counted from the sentence's first token
  int rows;          // of the tile; 0: there is nothing to do
  std::uint32_t id;  // of the sentence
  PhiloxKey key;     // of dropout
  float scale;       // of the scores
  float kept;        // what dropout multiplies a weight by that it keeps
  // Elements of this head in the sentence's first token:
  std::int64_t query;  // in a (T, 3 heads d) tensor
  std::int64_t out;    // in a (T, heads d) tensor
  std::int64_t lse;    // in the (heads, T) log-sum-exp

  // Part 0, 1, 2 of a (T, 3 heads d) tensor: q, k, v.
  RINGLET_HOST_DEVICE std::int64_t part(const AttentionShape& shape, int which) const {
    return query + which * out_stride(shape);
  }
};

/// q, k or v of this head in the sentence's first token.
template <class T>
RINGLET_HOST_DEVICE const T* part_of(const AttentionShape& shape, const AttentionItem& item,
                                     int which) {
  return static_cast<const T*>(shape.qkv) + item.part(shape, which);
}

/// The item of a head's slot of kRows rows in `sentence`. Only elements need 64 bits. Sentences
/// beyond the tokens, which the forward reports, have no item.
template <int kRows = kTileRows>
RINGLET_HOST_DEVICE AttentionItem attention_item(const AttentionShape& shape, int head, int slot,
                                                 const SlotSentence& sentence,
                                                 SlotRule rule = kEveryTile) {
  AttentionItem item{};
  const int index = sentence.index;
  item.head = head;
  item.sentence = index;
  item.first = sentence.begin;
  item.begin = (slot - first_slot(item.first, index, rule)) * kRows;
  item.length = sentence.end - item.first;
  const auto length = static_cast<unsigned>(item.length);
  if (static_cast<unsigned>(item.begin) >= length) return item;
  item.attended = shape.lengths ? shape.lengths[index] : item.length;
  const auto end = static_cast<unsigned>(sentence.end);
  if (length > end || end > static_cast<unsigned>(shape.tokens) ||
      static_cast<unsigned>(item.attended - 1) >= length)
    return item;
  const int left = item.length - item.begin;
  item.rows = left < kRows ? left : kRows;
  item.id = static_cast<std::uint32_t>(shape.sentence_ids ? shape.sentence_ids[index] : index);
  if (shape.dropout.threshold) item.key = key_of(shape.dropout);
  item.scale = static_cast<float>(shape.scale);
  item.kept = shape.dropout.threshold ? static_cast<float>(shape.dropout.scale) : 1;
  const int size = static_cast<int>(shape.head_size);
  const std::int64_t token = std::int64_t{item.first} * (static_cast<int>(shape.heads) * size);
  item.out = token + head * size;
  item.query = item.out + 2 * token;
  item.lse = std::int64_t{head} * static_cast<int>(shape.tokens) + item.first;
  return item;
}
/// The slot by kEveryTile of an item's first 16 rows, counted over all heads.
RINGLET_HOST_DEVICE std::int64_t slot_of(const AttentionShape& shape, const AttentionItem& item) {
  return std::int64_t{item.head} * attention_slots(shape) +
         (first_slot(item.first, item.sentence) + (item.begin >> kEveryTile.shift));
}

/// Warps take the first 64 rows of sentences with at most 64 keys, and blocks the other rows. So
/// the bits of a sentence do not depend on its padding, nor on other sentences.
RINGLET_HOST_DEVICE bool is_for_warp(const AttentionItem& item) {
  return static_cast<unsigned>((item.attended - 1) | item.begin) < kBlockRows;
}
/// A launch for both, of each head: blocks of `warps` tiles, and blocks of one tile of 64 rows.
struct MixedGrid {
  Slots of_warps, of_blocks;
  int warp_blocks, blocks;
  bool blocks_first;  // the longer work first
};
inline MixedGrid mixed_grid(const AttentionShape& shape, int warps) {
  const bool is_long = shape.tokens >= kBlockRows * shape.sentences;  // on average
  // A sentence that warps take has at most 4 tiles; one that blocks take has at least 65 tokens,
  // so that 32 tokens to a slot are enough.
  MixedGrid grid{slots_of(shape, is_long ? SlotRule{31, kBlockTiles} : kEveryTile),
                 slots_of(shape, is_long ? SlotRule{6, 1} : SlotRule{5, 0}), 0, 0, is_long};
  grid.warp_blocks = (grid.of_warps.count + warps - 1) / warps;
  if (shape.tokens > kBlockRows) grid.blocks = grid.of_blocks.count;
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

RINGLET_HOST_DEVICE int clamped(int x, int low, int high) {
  return x < low ? low : x > high ? high : x;
}
/// For a tile of 16 keys and 16 queries: the distance of its first key and first query, clamped to
/// an equivalent tile inside the table.
RINGLET_HOST_DEVICE int tile_distance(int key, int query) {
  return clamped(key - query, -kFar - 16, kFar + 16);
}
/// A warp's tile of queries reads these distances, with the sentence's keys kKeys at a time. All
/// are among the first kBlockRows, so that no distance is clamped.
template <int kKeys>
RINGLET_HOST_DEVICE DistanceRange distances_of_queries(const AttentionItem& item) {
  return {-item.begin - 15, ((item.attended - 1) | (kKeys - 1)) - item.begin};
}
/// A warp's tile of keys, and all queries, 16 at a time.
RINGLET_HOST_DEVICE DistanceRange distances_of_keys(const AttentionItem& item) {
  return {tile_distance(item.begin, (item.length - 1) & ~15) - 15, item.begin + 15};
}
/// For 32 consecutive distances: the lowest, clamped to an equivalent inside the table.
RINGLET_HOST_DEVICE int row_distance(int lowest) { return clamped(lowest, -kFar - 31, kFar); }

/// The distances of a bucket inside `range`; low > high if it has none.
RINGLET_HOST_DEVICE DistanceRange distances_of(int bucket, DistanceRange range) {
  // The first |distance| of a side's buckets from 8 on: 2^(bucket / 2 - 1), rounded up.
  constexpr std::uint64_t kFirst = 0x5b402e2017100c08;  // 8, 12, 16, 23, 32, 46, 64, 91
  const int of_side = bucket % (kRelativeBuckets / 2);
  int near = of_side, far = of_side;
  if (of_side >= 8) {
    const auto first = static_cast<std::uint32_t>(kFirst >> (8 * of_side - 64));
    near = static_cast<int>(first & 255);
    far = static_cast<int>(((first >> 8) - 1) & 255);  // of the last bucket 255, beyond any range
  }
  const bool left = bucket < kRelativeBuckets / 2;  // distance 0, too
  const int low = left ? -far : near > 0 ? near : 1, high = left ? -near : far;
  return {low < range.low ? range.low : low, high > range.high ? range.high : high};
}

}  // namespace ringlet::cuda
