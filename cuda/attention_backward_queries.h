// First pass of the backward for a tile of 16 queries on tensor cores, keys 32 at a time.
#pragma once

#include "ringlet/cuda/attention_forward.h"
#include "ringlet/cuda/attention_work.h"

namespace ringlet::cuda {

/// A lane's registers, for queries g and g + 8 (r = 0, 1).
template <int kHead>
struct QueryPassLane {
  Along<kHead> query[2], grad[2];
  Along<kHead> along[4];  // of keys, then of values
  Across<kHead> key_across[2];
  float score[4][4];   // later P, then the gradient of the scores
  float grad_p[4][4];  // after dropout
  float grad_query[kHead / 8][4];
  float lse[2];  // times log2 e
  float mean[2];
};

template <int kHead, class W, class Lanes>
RINGLET_WARP_CODE void load_query_pass(const W& warp, Lanes& lanes,
                                       const AttentionBackwardArgs& args,
                                       const AttentionItem& item) {
  const HeadRows grads{grad_of<bfloat16>(args, item), out_stride(args.shape), item.length};
  const float* lse = static_cast<const float*>(args.lse) + item.lse(args.shape) + item.begin;
  load_queries<kHead>(warp, lanes, args.shape, item);
  warp.each(lanes, [&](int lane, auto& s) {
    RINGLET_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int row = lane / 4 + 8 * r;
      s.grad[r] = load_along<kHead, W>(grads.row(item.begin + row), lane);
      s.lse[r] = row < item.rows ? lse[row] * kLog2E : 0;
    }
  });
}

/// P and grad P of the keys from `key` on.
template <int kHead, class W, class Lanes>
RINGLET_WARP_CODE void query_pass_weights(const W& warp, Lanes& lanes, const AttentionShape& shape,
                                          const AttentionItem& item, const float* bias, int key) {
  using Lane = QueryPassLane<kHead>;
  const HeadRows keys{part_of<bfloat16>(shape, item, 1), qkv_stride(shape), item.attended};
  const HeadRows values{part_of<bfloat16>(shape, item, 2), qkv_stride(shape), item.attended};
  // Sequentially: both products use the same registers.
  warp.sync();
  warp.each(lanes, [&](int lane, Lane& s) {
    RINGLET_UNROLL
    for (int n = 0; n < 4; ++n)
      s.along[n] = load_along<kHead, W>(keys.row(key + row_of_column(n, lane / 4)), lane);
  });
  multiply_along<kHead, &Lane::score, &Lane::query, &Lane::along>(warp, lanes, 4);
  warp.each(lanes, [&](int lane, Lane& s) {
    RINGLET_UNROLL
    for (int n = 0; n < 4; ++n)
      s.along[n] = load_along<kHead, W>(values.row(key + row_of_column(n, lane / 4)), lane);
  });
  multiply_along<kHead, &Lane::grad_p, &Lane::grad, &Lane::along>(warp, lanes, 4);
  warp.each(lanes, [&](int lane, Lane& s) {
    finish_scores<W>(s.score, shape, item, bias, key, lane);
    RINGLET_UNROLL
    for (int i = 0; i < 16; ++i) {
      float& p = s.score[i / 4][i % 4];
      float& grad = s.grad_p[i / 4][i % 4];
      // Rows beyond the sentence have any bias, and repeat the last row: its products may overflow.
      const int column = i / 8 * 16 + column_of(i / 4, lane % 4, i % 2);
      const bool real = lane / 4 + i % 4 / 2 * 8 < item.rows && key + column < item.attended;
      p = real ? W::exp2(p - s.lse[i % 4 / 2]) : 0;
      grad = real ? grad * item.kept : 0;
    }
    if (shape.dropout.threshold)
      for_dropped(shape, item, key, lane, [&](int n, int i) { s.grad_p[n][i] = 0; });
  });
}

/// Adds a lane's gradients of 16 scores to the sums by distance. In `skewed` a distance is a
/// column; elements that no score reaches stay 0.
template <class W, class Lanes>
RINGLET_WARP_CODE void add_distances(const W& warp, Lanes& lanes, QueryPassMemory<float>& memory,
                                     int half, int distance) {
  warp.each(lanes, [&](int lane, auto& s) {
    const int g = lane / 4, t = lane % 4;
    RINGLET_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int n = 2 * half + i / 4, row = g + i % 4 / 2 * 8, column = column_of(n, t, i % 2);
      memory.skewed[row][column - row + 15] = s.score[n][i % 4];
    }
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

/// Mean of grad P under P over all keys. The weights of the last keys stay in registers.
template <int kHead, class W, class Lanes>
RINGLET_WARP_CODE void query_pass_mean(const W& warp, Lanes& lanes, const AttentionShape& shape,
                                       const AttentionItem& item, const float* bias,
                                       QuerySums<float>* sums) {
  for (int key = 0; key < item.attended; key += kKeySpan) {
    query_pass_weights<kHead>(warp, lanes, shape, item, bias, key);
    warp.each(lanes, [&](int, auto& s) {
      RINGLET_UNROLL
      for (int i = 0; i < 16; ++i)
        s.mean[i % 4 / 2] =
            W::fma(s.score[i / 4][i % 4], s.grad_p[i / 4][i % 4], s.mean[i % 4 / 2]);
    });
  }
  RINGLET_UNROLL
  for (int r = 0; r < 2; ++r)
    add_across_row(warp, lanes, [r](auto& s) -> float& { return s.mean[r]; });
  warp.each(lanes, [&](int lane, auto& s) {
    RINGLET_UNROLL
    for (int r = 0; r < 2; ++r)
      if (lane % 4 == 0 && lane / 4 + 8 * r < item.rows)
        sums[item.begin + lane / 4 + 8 * r] = {s.lse[r], s.mean[r]};
  });
}

template <class W>
RINGLET_WARP_CODE void clear_query_pass(const W& warp, QueryPassMemory<float>& memory,
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
                                            QueryPassMemory<float>& memory) {
  using Lane = QueryPassLane<kHead>;
  const AttentionShape& shape = args.shape;
  const DistanceRange range = distances_of_queries(item);
  const HeadRows keys{part_of<bfloat16>(shape, item, 1), qkv_stride(shape), item.attended};
  typename W::template Lanes<Lane> lanes{};
  load_query_pass<kHead>(warp, lanes, args, item);
  if (shape.relative_bias) fill_bias(warp, memory.bias, shape, item.head, range, kLog2E);
  if (work.buckets) clear_query_pass(warp, memory, range);
  query_pass_mean<kHead>(warp, lanes, shape, item, memory.bias,
                         query_sums<float>(work, shape, item));
  for (int key = 0; key < item.attended; key += kKeySpan) {
    // The weights of a short sentence are still in registers.
    if (item.attended > kKeySpan)
      query_pass_weights<kHead>(warp, lanes, shape, item, memory.bias, key);
    // After this barrier `key_across` reuses the registers of `along`, as in the other pass.
    warp.sync();
    warp.each(lanes, [&](int lane, Lane& s) {
      RINGLET_UNROLL
      for (int i = 0; i < 16; ++i)
        s.score[i / 4][i % 4] *= s.grad_p[i / 4][i % 4] - s.mean[i % 4 / 2];
      RINGLET_UNROLL
      for (int half = 0; half < 2; ++half)
        s.key_across[half] = load_across<kHead, W>(keys, key + 16 * half, lane);
    });
    RINGLET_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (work.buckets)
        add_distances(warp, lanes, memory, half, tile_distance(key + 16 * half, item.begin));
      multiply_across<kHead, &Lane::grad_query, &Lane::score, &Lane::key_across>(warp, lanes, half);
    }
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
