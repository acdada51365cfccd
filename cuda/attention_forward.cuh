// Forward of a tile of 16 queries, keys 32 at a time with a running maximum and sum.
#pragma once

#include <limits>

#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/attention_tile.cuh"
#include "ringlet/cuda/attention_weights.cuh"

namespace ringlet::cuda {

inline constexpr int kKeySpan = 32;

/// A lane's registers, for queries g and g + 8 (r = 0, 1).
template <int kHead>
struct ForwardLane {
  Along<kHead> query[2];
  Along<kHead> key[4];
  Across<kHead> value[2];
  float score[4][4];        // later P, not normalised
  float out[kHead / 8][4];  // sums of P V
  float top[2];             // running maximum of scores times log2 e
  float peak[2];            // maximum of these 32 keys
  float total[2];           // sum of this lane's P
};

/// Turns a product into scores times log2 e plus bias; -infinity beyond the last key.
__device__ __forceinline__ void finish_scores(float (&score)[4][4], const AttentionItem& item,
                                              const float* bias, int key, int lane) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const int first = key + n / 2 * 16;
    const float* own = bias + kMiddle + first - item.begin + 4 * t - g;
    const int columns = item.attended - first - 4 * t;  // of the lane's four
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = column_of(n, 0, i % 2);
      const float x = ::fma(score[n][i], item.scale * kLog2E, own[column - i / 2 * 8]);
      score[n][i] = column < columns ? x : -std::numeric_limits<float>::infinity();
    }
  }
}

template <int kHead, class Lane>
__device__ __forceinline__ void load_queries(int lane, Lane& s, const AttentionShape& shape,
                                             const AttentionItem& item) {
  const HeadRows queries = rows_of_part<kHead>(shape, item, 0, item.length, column_along(lane));
#pragma unroll
  for (int r = 0; r < 2; ++r)
    s.query[r] = load_along<kHead>(queries.row(item.begin + lane / 4 + 8 * r));
}

/// Raises a row's running maximum on all of its lanes and rescales the sums to it.
template <int kHead, class Lane>
__device__ __forceinline__ void raise_top(Lane& s) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    s.peak[r] = s.top[r];
#pragma unroll
    for (int i = 0; i < 8; ++i) s.peak[r] = ::fmax(s.peak[r], s.score[i / 2][2 * r + i % 2]);
#pragma unroll
    for (int mask = 1; mask < 4; mask *= 2)
      s.peak[r] = ::fmax(s.peak[r], __shfl_xor_sync(kAllLanes, s.peak[r], mask));
    const float factor = exp2_approx(s.top[r] - s.peak[r]);
    s.top[r] = s.peak[r];
    s.total[r] *= factor;
#pragma unroll
    for (int j = 0; j < kHead / 8; ++j) {
      s.out[j][2 * r] *= factor;
      s.out[j][2 * r + 1] *= factor;
    }
  }
}

template <int kHead>
__device__ __forceinline__ void store_forward(const ForwardLane<kHead>& s, int lane,
                                              const AttentionArgs& args,
                                              const AttentionItem& item) {
  auto* out = static_cast<bfloat16*>(args.out) + item.out + column_stored<kHead>(lane);
  float* lse = static_cast<float*>(args.lse) + item.lse + item.begin;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + 8 * r;
    if (row >= item.rows) continue;
    store_row<kHead>(
        address_of(out, item.begin + row, static_cast<int>(args.shape.heads) * 2 * kHead), s.out, r,
        item.kept / s.total[r]);
    if (lane % 4 == 0) lse[row] = (s.top[r] + ::log2f(s.total[r])) * kLn2;
  }
}

/// `bias`: shared memory, kDistances floats.
template <int kHead>
__device__ __forceinline__ void attention_forward_tile(int lane, const AttentionArgs& args,
                                                       const AttentionItem& item, float* bias) {
  using Lane = ForwardLane<kHead>;
  const AttentionShape& shape = args.shape;
  const HeadRows keys = rows_of_part<kHead>(shape, item, 1, item.attended, column_along(lane));
  const HeadRows values =
      rows_of_part<kHead>(shape, item, 2, item.attended, column_across<kHead>(lane));
  Lane s{};
  load_queries<kHead>(lane, s, shape, item);
  fill_bias(lane, bias, shape, item.head, distances_of_queries<kKeySpan>(item), kLog2E);
  s.top[0] = s.top[1] = -std::numeric_limits<float>::infinity();
  for (int key = 0; key < item.attended; key += kKeySpan) {
#pragma unroll
    for (int n = 0; n < 4; ++n)
      s.key[n] = load_along<kHead>(keys.row(key + row_of_column(n, lane / 4)));
#pragma unroll
    for (int half = 0; half < 2; ++half)
      s.value[half] = load_across<kHead>(values, key + 16 * half, lane);
    multiply_along<kHead>(s.score, s.query, s.key);
    finish_scores(s.score, item, bias, key, lane);
    raise_top<kHead>(s);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& p = s.score[i / 4][i % 4];
      p = exp2_approx(p - s.top[i % 4 / 2]);
      s.total[i % 4 / 2] += p;
    }
    if (shape.dropout.threshold)
      for_dropped(shape, item, key, lane, [&](int n, int i) { s.score[n][i] = 0; });
#pragma unroll
    for (int half = 0; half < 2; ++half) multiply_across<kHead>(s.out, s.score, s.value, half);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) s.total[r] = sum_across_row(s.total[r]);
  store_forward<kHead>(s, lane, args, item);
}

}  // namespace ringlet::cuda
