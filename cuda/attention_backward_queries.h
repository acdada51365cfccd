// Backward of a tile of 16 queries on tensor cores, keys 16 at a time.
#pragma once

#include "ringlet/cuda/attention_forward.h"
#include "ringlet/cuda/attention_work.h"

namespace ringlet::cuda {

/// A lane's registers, for queries g and g + 8 (r = 0, 1).
template <int kHead>
struct QueryPassLane {
  Along<kHead> query[2], grad[2], out[2];
  Along<kHead> key[2], value[2];  // a product's columns each
  Across<kHead> across[1];        // of keys
  float score[2][4];              // later its gradient
  float grad_p[2][4];             // before dropout
  float grad_query[kHead / 8][4];
  float lse[2];  // times log2 e
  PhiloxBlock words;
};

template <int kHead, class W, class Lanes>
RINGLET_WARP_CODE void load_query_pass(const W& warp, Lanes& lanes,
                                       const AttentionBackwardArgs& args,
                                       const AttentionItem& item) {
  const HeadRows grads{grad_of<bfloat16>(args, item), out_stride(args.shape), item.length};
  const HeadRows outs{out_of<bfloat16>(args, item), out_stride(args.shape), item.length};
  const float* lse = static_cast<const float*>(args.lse) + item.lse(args.shape) + item.begin;
  load_queries<kHead>(warp, lanes, args.shape, item);
  warp.each(lanes, [&](int lane, auto& s) {
    RINGLET_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int row = lane / 4 + 8 * r;
      s.grad[r] = load_along<kHead, W>(grads.row(item.begin + row), lane);
      s.out[r] = load_along<kHead, W>(outs.row(item.begin + row), lane);
      s.lse[r] = row < item.rows ? lse[row] * kLog2E : 0;
    }
  });
}

/// Loads the keys from `key` on, and draws their dropout while the loads are in flight.
template <int kHead, class W, class Lanes>
RINGLET_WARP_CODE void load_keys_of_queries(const W& warp, Lanes& lanes,
                                            const AttentionShape& shape, const AttentionItem& item,
                                            int key) {
  const HeadRows keys{part_of<bfloat16>(shape, item, 1), qkv_stride(shape), item.attended};
  const HeadRows values{part_of<bfloat16>(shape, item, 2), qkv_stride(shape), item.attended};
  warp.each(lanes, [&](int lane, auto& s) {
    RINGLET_UNROLL
    for (int n = 0; n < 2; ++n) {
      const int row = key + row_of_column(n, lane / 4);
      s.key[n] = load_along<kHead, W>(keys.row(row), lane);
      s.value[n] = load_along<kHead, W>(values.row(row), lane);
    }
    if (shape.dropout.threshold) s.words = words_of_queries(shape, item, key, lane);
  });
}

/// Scores become their gradient. Rows and keys beyond the sentence have none. They repeat the last
/// row and key, so their products may overflow, and their bias is any.
template <class W, class Lane>
RINGLET_WARP_CODE void query_pass_weights(const AttentionShape& shape, const AttentionItem& item,
                                          const BackwardMemory<float>& memory, int key, int lane,
                                          Lane& s) {
  const int g = lane / 4, first = column_of(0, lane % 4, 0);  // of the lane's four columns
  const float* bias = memory.bias + kMiddle + tile_distance(key, item.begin) + first - g;
  const int columns = item.attended - key - first;  // of those
  RINGLET_UNROLL
  for (int i = 0; i < 8; ++i) {
    const int n = i / 4, r = i % 4 / 2, column = 2 * n + i % 2;
    const bool real = g + 8 * r < item.rows && column < columns;
    float& score = s.score[n][i % 4];
    const float b = shape.relative_bias ? bias[column - 8 * r] : 0;
    const float p = W::exp2(W::fma(score, item.scale * kLog2E, b) - s.lse[r]);
    float grad = s.grad_p[n][i % 4] * item.kept;
    if (shape.dropout.threshold) grad = keeps(s.words.word[column], r, shape.dropout) ? grad : 0;
    score = real ? p * (grad - memory.sums.mean[g + 8 * r]) : 0;
  }
}

/// Adds a lane's gradients of 16 x 16 scores to the sums by distance. In `skewed` a distance is a
/// column; elements that no score reaches stay 0.
template <class W, class Lanes>
RINGLET_WARP_CODE void add_distances(const W& warp, Lanes& lanes, BackwardMemory<float>& memory,
                                     int distance) {
  warp.each(lanes, [&](int lane, auto& s) {
    const int row = lane / 4;
    float* own = &memory.skewed[row][column_of(0, lane % 4, 0) - row + 15];
    RINGLET_UNROLL
    for (int n = 0; n < 2; ++n) RINGLET_UNROLL
    for (int i = 0; i < 4; ++i) own[2 * n + i % 2 + i / 2 * (8 * 32 - 8)] = s.score[n][i];
  });
  warp.sync();
  warp.each(lanes, [&](int lane, auto&) {
    if (lane == 31) return;
    float total = 0;
    RINGLET_UNROLL
    for (int row = 0; row < 16; ++row) total += memory.skewed[row][lane];
    memory.by_distance[kMiddle + distance + lane - 15] += total;
  });
  warp.sync();
}

template <class W>
RINGLET_WARP_CODE void clear_query_pass(const W& warp, BackwardMemory<float>& memory,
                                        DistanceRange range) {
  typename W::template Lanes<int> lanes{};
  warp.each(lanes, [&](int lane, int&) {
    for (int row = 0; row < 16; ++row) memory.skewed[row][lane] = 0;
  });
  clear_distances(warp, memory.by_distance, range);
}

template <int kHead, class W>
RINGLET_WARP_CODE void attention_query_pass(const W& warp, const AttentionBackwardArgs& args,
                                            const AttentionWork& work, const AttentionItem& item,
                                            BackwardMemory<float>& memory) {
  using Lane = QueryPassLane<kHead>;
  const AttentionShape& shape = args.shape;
  const DistanceRange range =
      tile_distances(0, (item.attended - 1) / kTileRows * kTileRows, item.begin, item.begin);
  const HeadRows keys{part_of<bfloat16>(shape, item, 1), qkv_stride(shape), item.attended};
  typename W::template Lanes<Lane> lanes{};
  load_query_pass<kHead>(warp, lanes, args, item);
  load_keys_of_queries<kHead>(warp, lanes, shape, item, 0);
  if (shape.relative_bias) fill_bias(warp, memory.bias, shape, item.head, range, kLog2E);
  if (work.buckets) clear_query_pass(warp, memory, range);
  fill_means<kHead, Lane>(warp, lanes, memory.sums, [](int r, int g) { return g + 8 * r; });
  for (int key = 0; key < item.attended; key += kTileRows) {
    if (key > 0) load_keys_of_queries<kHead>(warp, lanes, shape, item, key);
    multiply_along<kHead, &Lane::score, &Lane::query, &Lane::key>(warp, lanes, 2);
    multiply_along<kHead, &Lane::grad_p, &Lane::grad, &Lane::value>(warp, lanes, 2);
    // After this barrier `across` reuses the registers of `key` and `value`. The rows are still in
    // the L1 cache.
    warp.sync();
    warp.each(lanes, [&](int lane, Lane& s) {
      s.across[0] = load_across<kHead, W>(keys, key, lane);
      query_pass_weights<W>(shape, item, memory, key, lane, s);
    });
    multiply_across<kHead, &Lane::grad_query, &Lane::score, &Lane::across>(warp, lanes, 0);
    if (work.buckets) add_distances(warp, lanes, memory, tile_distance(key, item.begin));
  }
  warp.each(lanes, [&](int lane, Lane& s) {
    RINGLET_UNROLL
    for (int r = 0; r < 2; ++r)
      if (const int row = lane / 4 + 8 * r; row < item.rows)
        store_row<kHead, W>(
            grad_part<bfloat16>(args, item, 0) + (item.begin + row) * qkv_stride(shape),
            s.grad_query, r, item.scale, lane);
  });
  if (work.buckets)
    store_buckets(warp, static_cast<float*>(work.buckets) + item.index * kRelativeBuckets,
                  memory.by_distance, range);
}

}  // namespace ringlet::cuda
