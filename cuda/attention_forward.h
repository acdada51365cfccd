// Forward of a tile of 16 queries, keys 32 at a time with a running maximum and sum.
#pragma once

#include <limits>

#include "ringlet/cuda/attention_bias.h"
#include "ringlet/cuda/attention_dropout.h"
#include "ringlet/cuda/attention_tile.h"

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
template <class W>
RINGLET_WARP_CODE void finish_scores(float (&score)[4][4], const AttentionShape& shape,
                                     const AttentionItem& item, const float* bias, int key,
                                     int lane) {
  const int g = lane / 4, t = lane % 4;
  RINGLET_UNROLL
  for (int n = 0; n < 4; ++n) {
    const int first = key + n / 2 * 16;
    const int at = kMiddle + tile_distance(first, item.begin) - g;
    RINGLET_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int column = column_of(n, t, i % 2);
      const float b = shape.relative_bias ? bias[at + column - i / 2 * 8] : 0;
      const float x = W::fma(score[n][i], item.scale * kLog2E, b);
      score[n][i] = first + column < item.attended ? x : -std::numeric_limits<float>::infinity();
    }
  }
}

template <int kHead, class W, class Lanes>
RINGLET_WARP_CODE void load_queries(const W& warp, Lanes& lanes, const AttentionShape& shape,
                                    const AttentionItem& item) {
  const auto* qkv = static_cast<const bfloat16*>(shape.qkv);
  const HeadRows queries{qkv + item.part(shape, 0), qkv_stride(shape), item.length};
  warp.each(lanes, [&](int lane, auto& s) {
    RINGLET_UNROLL
    for (int r = 0; r < 2; ++r)
      s.query[r] = load_along<kHead, W>(queries.row(item.begin + lane / 4 + 8 * r), lane);
  });
}

/// Raises a row's running maximum on all of its lanes and rescales the sums to it.
template <int kHead, class W, class Lanes>
RINGLET_WARP_CODE void raise_top(const W& warp, Lanes& lanes) {
  RINGLET_UNROLL
  for (int r = 0; r < 2; ++r) {
    warp.each(lanes, [&](int, auto& s) {
      s.peak[r] = s.top[r];
      RINGLET_UNROLL
      for (int i = 0; i < 8; ++i)
        s.peak[r] = W::maximum_of(s.peak[r], s.score[i / 2][2 * r + i % 2]);
    });
    RINGLET_UNROLL
    for (int mask = 1; mask < 4; mask *= 2)
      warp.shuffle_xor(
          lanes, mask, [&](auto& s) { return s.peak[r]; },
          [&](auto& s, float other) { s.peak[r] = W::maximum_of(s.peak[r], other); });
    warp.each(lanes, [&](int, auto& s) {
      const float factor = W::exp2(s.top[r] - s.peak[r]);
      s.top[r] = s.peak[r];
      s.total[r] *= factor;
      RINGLET_UNROLL
      for (int j = 0; j < kHead / 8; ++j) {
        s.out[j][2 * r] *= factor;
        s.out[j][2 * r + 1] *= factor;
      }
    });
  }
}

template <int kHead, class W>
RINGLET_WARP_CODE void store_forward(const ForwardLane<kHead>& s, int lane,
                                     const AttentionArgs& args, const AttentionItem& item) {
  auto* out = static_cast<bfloat16*>(args.out) + item.out(args.shape);
  float* lse = static_cast<float*>(args.lse) + item.lse(args.shape);
  RINGLET_UNROLL
  for (int r = 0; r < 2; ++r) {
    if (lane / 4 + 8 * r >= item.rows) continue;
    const int query = item.begin + lane / 4 + 8 * r;
    store_row<kHead, W>(out + query * out_stride(args.shape), s.out, r, item.kept / s.total[r],
                        lane);
    if (lane % 4 == 0) lse[query] = (s.top[r] + W::log2(s.total[r])) * kLn2;
  }
}

/// `bias`: shared memory, kDistances floats; not read without a relative bias.
template <int kHead, class W>
RINGLET_WARP_CODE void attention_forward_tile(const W& warp, const AttentionArgs& args,
                                              const AttentionItem& item, float* bias) {
  using Lane = ForwardLane<kHead>;
  const AttentionShape& shape = args.shape;
  const auto* qkv = static_cast<const bfloat16*>(shape.qkv);
  const HeadRows keys{qkv + item.part(shape, 1), qkv_stride(shape), item.attended};
  const HeadRows values{qkv + item.part(shape, 2), qkv_stride(shape), item.attended};
  typename W::template Lanes<Lane> lanes{};
  load_queries<kHead>(warp, lanes, shape, item);
  if (shape.relative_bias)
    fill_bias(warp, bias, shape, item.head, distances_of_queries(item), kLog2E);
  warp.each(lanes,
            [&](int, Lane& s) { s.top[0] = s.top[1] = -std::numeric_limits<float>::infinity(); });
  for (int key = 0; key < item.attended; key += kKeySpan) {
    warp.each(lanes, [&](int lane, Lane& s) {
      RINGLET_UNROLL
      for (int n = 0; n < 4; ++n)
        s.key[n] = load_along<kHead, W>(keys.row(key + row_of_column(n, lane / 4)), lane);
      RINGLET_UNROLL
      for (int half = 0; half < 2; ++half)
        s.value[half] = load_across<kHead, W>(values, key + 16 * half, lane);
    });
    multiply_along<kHead, &Lane::score, &Lane::query, &Lane::key>(warp, lanes, 4);
    warp.each(lanes,
              [&](int lane, Lane& s) { finish_scores<W>(s.score, shape, item, bias, key, lane); });
    raise_top<kHead>(warp, lanes);
    warp.each(lanes, [&](int lane, Lane& s) {
      RINGLET_UNROLL
      for (int i = 0; i < 16; ++i) {
        float& p = s.score[i / 4][i % 4];
        p = W::exp2(p - s.top[i % 4 / 2]);
        s.total[i % 4 / 2] += p;
      }
      if (shape.dropout.threshold)
        for_dropped(shape, item, key, lane, [&](int n, int i) { s.score[n][i] = 0; });
    });
    RINGLET_UNROLL
    for (int half = 0; half < 2; ++half)
      multiply_across<kHead, &Lane::out, &Lane::score, &Lane::value>(warp, lanes, half);
  }
  RINGLET_UNROLL
  for (int r = 0; r < 2; ++r)
    add_across_row(warp, lanes, [r](auto& s) -> float& { return s.total[r]; });
  warp.each(lanes, [&](int lane, Lane& s) { store_forward<kHead, W>(s, lane, args, item); });
}

}  // namespace ringlet::cuda
