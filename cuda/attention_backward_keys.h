// Backward of a tile of 16 keys on tensor cores, queries 16 at a time. Scores are transposed, with
// keys in rows: rows g and g + 8 of a product are keys 2g and 2g + 1.
#pragma once

#include "ringlet/cuda/attention_forward.h"
#include "ringlet/cuda/attention_work.h"

namespace ringlet::cuda {

/// A lane's registers, for keys 2g and 2g + 1 (r = 0, 1).
template <int kHead>
struct KeyPassLane {
  Along<kHead> key[2], value[2];
  Along<kHead> query[2], grad[2], out[2];  // a product's columns each
  Across<kHead> across[1];                 // of gradients, then of queries
  float score[2][4];                       // later P after dropout
  float grad_p[2][4];                      // later the gradient of the scores
  float grad_key[kHead / 8][4], grad_value[kHead / 8][4];
  std::uint32_t kept;
};

/// Loads the tile's keys (part 1) or values (part 2).
template <int kHead, auto kTo, class W, class Lanes>
RINGLET_WARP_CODE void load_key_pass(const W& warp, Lanes& lanes, const AttentionShape& shape,
                                     const AttentionItem& item, int part) {
  const HeadRows rows{part_of<bfloat16>(shape, item, part), qkv_stride(shape), item.length};
  warp.each(lanes, [&](int lane, auto& s) {
    RINGLET_UNROLL
    for (int r = 0; r < 2; ++r)
      (s.*kTo)[r] = load_along<kHead, W>(rows.row(item.begin + lane / 4 * 2 + r), lane);
  });
}

/// Loads the queries from `query` on, and draws which of their weights dropout keeps, before the
/// products wait for the loads.
template <int kHead, class W, class Lanes>
RINGLET_WARP_CODE void load_queries_of_keys(const W& warp, Lanes& lanes,
                                            const AttentionBackwardArgs& args,
                                            const AttentionItem& item, const HeadRows& queries,
                                            const HeadRows& grads, int query, QuerySums& sums) {
  const HeadRows outs{out_of<bfloat16>(args, item), out_stride(args.shape), item.length};
  const float* lse = static_cast<const float*>(args.lse) + item.lse(args.shape);
  warp.each(lanes, [&](int lane, auto& s) {
    RINGLET_UNROLL
    for (int n = 0; n < 2; ++n) {
      const int row = query + row_of_column(n, lane / 4);
      s.query[n] = load_along<kHead, W>(queries.row(row), lane);
      s.grad[n] = load_along<kHead, W>(grads.row(row), lane);
      s.out[n] = load_along<kHead, W>(outs.row(row), lane);
    }
    if (args.shape.dropout.threshold) s.kept = kept_of_keys(args.shape, item, query, lane);
    if (lane < kTileRows && query + lane < item.length) sums.lse[lane] = lse[query + lane] * kLog2E;
  });
  if (args.shape.dropout.threshold) RINGLET_UNROLL
  for (int mask = 2; mask <= 4; mask *= 2)
    warp.shuffle_xor(
        lanes, mask, [](auto& s) { return s.kept; },
        [](auto& s, std::uint32_t other) { s.kept |= other; });
  warp.each(lanes, [&](int lane, auto& s) { s.kept = own_kept(s.kept, lane); });
}

/// Scores become P after dropout, grad P becomes the gradient of the scores.
template <class W, class Lane>
RINGLET_WARP_CODE void key_pass_weights(const AttentionShape& shape, const AttentionItem& item,
                                        const BackwardMemory<float>& memory, int query, int lane,
                                        Lane& s) {
  const int key = lane / 4 * 2, first = column_of(0, lane % 4, 0);  // of the lane's four columns
  const float* bias = memory.bias + kMiddle + tile_distance(item.begin, query) + key - first;
  const int columns = item.length - query - first;  // of those
  RINGLET_UNROLL
  for (int i = 0; i < 8; ++i) {
    const int n = i / 4, r = i % 4 / 2, column = 2 * n + i % 2;
    const bool real = column < columns;
    float& score = s.score[n][i % 4];
    float& grad = s.grad_p[n][i % 4];
    const float b = shape.relative_bias ? bias[r - column] : 0;
    const float lse = memory.sums.lse[first + column], mean = memory.sums.mean[first + column];
    const float p = real ? W::exp2(W::fma(score, item.scale * kLog2E, b) - lse) : 0;
    score = p;
    if (shape.dropout.threshold) {
      const bool kept = s.kept & 1u << (8 * column + r);
      score = kept ? p : 0;
      grad = kept ? grad * item.kept : 0;
    }
    grad = real ? p * (grad - mean) : 0;
  }
}

/// Padding keys, which no query attends to, have no gradient.
template <int kHead, class W>
RINGLET_WARP_CODE void store_key_pass(const KeyPassLane<kHead>& s, int lane,
                                      const AttentionBackwardArgs& args,
                                      const AttentionItem& item) {
  RINGLET_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 * 2 + r;
    if (row >= item.rows) continue;
    const bool attended = item.begin + row < item.attended;
    const std::int64_t at = (item.begin + row) * qkv_stride(args.shape);
    bfloat16* grad_key = grad_part<bfloat16>(args, item, 1) + at;
    bfloat16* grad_value = grad_part<bfloat16>(args, item, 2) + at;
    if (attended) {
      store_row<kHead, W>(grad_key, s.grad_key, r, item.scale, lane);
      store_row<kHead, W>(grad_value, s.grad_value, r, item.kept, lane);
    } else {
      const float none[kHead / 8][4] = {};
      store_row<kHead, W>(grad_key, none, r, 0, lane);
      store_row<kHead, W>(grad_value, none, r, 0, lane);
    }
  }
}

template <int kHead, class W>
RINGLET_WARP_CODE void attention_key_pass(const W& warp, const AttentionBackwardArgs& args,
                                          const AttentionItem& item,
                                          BackwardMemory<float>& memory) {
  using Lane = KeyPassLane<kHead>;
  const auto queries = [&] {
    return HeadRows(part_of<bfloat16>(args.shape, item, 0), qkv_stride(args.shape), item.length);
  };
  const auto grads = [&] {
    return HeadRows(grad_of<bfloat16>(args, item), out_stride(args.shape), item.length);
  };
  typename W::template Lanes<Lane> lanes{};
  if (item.begin < item.attended) {
    if (args.shape.relative_bias)
      fill_bias(warp, memory.bias, args.shape, item.head, distances_of_keys(item), kLog2E);
    for (int query = 0; query < item.length; query += kTileRows) {
      warp.sync();
      load_queries_of_keys<kHead>(warp, lanes, args, item, queries(), grads(), query, memory.sums);
      load_key_pass<kHead, &Lane::key>(warp, lanes, args.shape, item, 1);
      fill_means<kHead, Lane>(warp, lanes, memory.sums, row_of_column);
      // After this barrier they can reuse the registers of `out`.
      load_key_pass<kHead, &Lane::value>(warp, lanes, args.shape, item, 2);
      multiply_along<kHead, &Lane::score, &Lane::key, &Lane::query>(warp, lanes, 2);
      multiply_along<kHead, &Lane::grad_p, &Lane::value, &Lane::grad>(warp, lanes, 2);
      warp.each(lanes, [&](int lane, Lane& s) {
        key_pass_weights<W>(args.shape, item, memory, query, lane, s);
      });
      // After a barrier `across` can reuse the registers of `query` and `grad`; the rows are still
      // in the L1 cache.
      warp.sync();
      warp.each(lanes, [&](int lane, Lane& s) {
        s.across[0] = load_across<kHead, W>(grads(), query, lane);
      });
      multiply_across<kHead, &Lane::grad_value, &Lane::score, &Lane::across>(warp, lanes, 0);
      warp.sync();
      warp.each(lanes, [&](int lane, Lane& s) {
        s.across[0] = load_across<kHead, W>(queries(), query, lane);
      });
      multiply_across<kHead, &Lane::grad_key, &Lane::grad_p, &Lane::across>(warp, lanes, 0);
    }
  }
  warp.each(lanes, [&](int lane, Lane& s) { store_key_pass<kHead, W>(s, lane, args, item); });
}

}  // namespace ringlet::cuda
