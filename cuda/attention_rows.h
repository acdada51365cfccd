// Attention of any dtype, head size and alignment, without tensor cores. A warp takes the 16 rows
// of its tile sequentially: first 32 keys (or queries), one per lane, then one column per lane. S
// is the type of the computation: f32 for bf16.
#pragma once

#include <limits>

#include "ringlet/cuda/attention_bias.h"
#include "ringlet/cuda/attention_dropout.h"
#include "ringlet/cuda/pack.h"

namespace ringlet::cuda {

inline constexpr int kRowColumns = 4;  // per lane at a time, 32 apart
inline constexpr int kDotLoads = 4;    // of 16 bytes each

/// A lane's registers.
template <class S>
struct RowLane {
  S p;       // of this lane's key (or query)
  S grad_p;  // after dropout, later the gradient of the score
  S sums[2][kRowColumns];
};

/// The elements are added in order. Aligned ones are loaded kDotLoads packs at a time, so that
/// their latencies overlap.
template <class S, class W, class T>
RINGLET_WARP_CODE S dot(const T* a, const T* b, std::int64_t width) {
  constexpr int kRun = kDotLoads * kPack<T>;
  S sum = 0;
  std::int64_t i = 0;
  for (const bool packs = aligned16(a, b); packs && i + kRun <= width; i += kRun) {
    alignas(16) T x[kRun], y[kRun];
    RINGLET_UNROLL
    for (int j = 0; j < kRun; j += kPack<T>) {
      reinterpret_cast<Words<4>&>(x[j]) = W::template load<4>(a + i + j);
      reinterpret_cast<Words<4>&>(y[j]) = W::template load<4>(b + i + j);
    }
    RINGLET_UNROLL
    for (int j = 0; j < kRun; ++j)
      sum = W::fma(W::template widen<S>(x[j]), W::template widen<S>(y[j]), sum);
  }
  for (; i < width; ++i) sum = W::fma(W::template widen<S>(a[i]), W::template widen<S>(b[i]), sum);
  return sum;
}

/// One head of a sentence: rows of q, k, v, and scores and dropout of a pair of them.
template <class T, class S, class W>
struct RowSource {
  const AttentionShape& shape;
  const AttentionItem& item;
  const S* bias;

  RINGLET_WARP_CODE const T* row(int which, int token) const {
    return part_of<T>(shape, item, which) + token * qkv_stride(shape);
  }
  /// The score of a pair; `distance` is key - query or an equivalent.
  RINGLET_WARP_CODE S score(int query, int key, int distance) const {
    const S x =
        dot<S, W>(row(0, query), row(1, key), shape.head_size) * static_cast<S>(shape.scale);
    return shape.relative_bias ? x + bias[kMiddle + distance] : x;
  }
  RINGLET_WARP_CODE bool kept(int query, int key) const {
    if (shape.dropout.threshold == 0) return true;
    const PhiloxBlock block = weight_words(shape, item, query & ~8, key);
    std::uint32_t word = block.word[0];
    RINGLET_UNROLL
    for (int i = 1; i < 4; ++i) word = key % 4 == i ? block.word[i] : word;
    return keeps(word, query / 8 % 2, shape.dropout);
  }
  RINGLET_WARP_CODE S kept_scale() const {
    return shape.dropout.threshold ? static_cast<S>(shape.dropout.scale) : S{1};
  }
};

/// sums[sum] = over `rows` rows, the sum of get(state of the row's lane, sum) times row(sum, i).
/// `weigh(first)` fills the lanes for rows first to first + 31 before they are added.
template <int kSums, class S, class W, class Lanes, class Weigh, class Get, class Row>
RINGLET_WARP_CODE void add_rows(const W& warp, Lanes& lanes, std::int64_t column,
                                std::int64_t width, int rows, Weigh weigh, Get get, Row row) {
  warp.each(lanes, [&](int, auto& s) {
    for (int sum = 0; sum < kSums; ++sum)
      for (S& x : s.sums[sum]) x = 0;
  });
  for (int first = 0; first < rows; first += kLanes) {
    weigh(first);
    for (int from = 0; from < kLanes && first + from < rows; ++from) RINGLET_UNROLL
    for (int sum = 0; sum < kSums; ++sum) {
      const S weight = warp.broadcast(lanes, from, [&](auto& s) { return get(s, sum); });
      const auto* x = row(sum, first + from);
      warp.each(lanes, [&](int lane, auto& s) {
        RINGLET_UNROLL
        for (int k = 0; k < kRowColumns; ++k)
          if (const std::int64_t i = column + lane + k * kLanes; i < width)
            s.sums[sum][k] = W::fma(weight, W::template widen<S>(x[i]), s.sums[sum][k]);
      });
    }
  }
}
template <class S, class W, class T, class Lanes>
RINGLET_WARP_CODE void store_sums(const W& warp, Lanes& lanes, T* to, int sum, std::int64_t column,
                                  std::int64_t width, S factor) {
  warp.each(lanes, [&](int lane, auto& s) {
    for (int k = 0; k < kRowColumns; ++k)
      if (const std::int64_t i = column + lane + k * kLanes; i < width)
        to[i] = W::template narrow<T>(s.sums[sum][k] * factor);
  });
}

template <class T, class S, class W>
RINGLET_WARP_CODE void attention_forward_row(const W& warp, const AttentionArgs& args,
                                             const RowSource<T, S, W>& from, int query) {
  const AttentionItem& item = from.item;
  constexpr S kNone = -std::numeric_limits<S>::infinity();
  typename W::template Lanes<RowLane<S>> lanes{};
  const auto scores = [&](int first) {
    const int distance = row_distance(std::int64_t{first} - query);
    warp.each(lanes, [&](int lane, auto& s) {
      const int key = first + lane;
      s.p = key < item.attended ? from.score(query, key, distance + lane) : kNone;
    });
  };
  S top = kNone, total = 0;
  for (int first = 0; first < item.attended; first += kLanes) {
    scores(first);
    const S peak = warp.maximum(lanes, [](auto& s) { return s.p; });
    const S raised = W::maximum_of(top, peak);
    warp.each(lanes, [&](int, auto& s) { s.grad_p = W::exp(s.p - raised); });
    total = total * W::exp(top - raised) + warp.sum(lanes, [](auto& s) { return s.grad_p; });
    top = raised;
  }
  T* out = static_cast<T*>(args.out) + item.out(from.shape) + query * out_stride(from.shape);
  for (std::int64_t column = 0; column < from.shape.head_size; column += kRowColumns * kLanes) {
    add_rows<1, S>(
        warp, lanes, column, from.shape.head_size, item.attended,
        [&](int first) {
          // One run of keys has its scores in the lanes still.
          if (item.attended > kLanes || column > 0) scores(first);
          warp.each(lanes, [&](int lane, auto& s) {
            s.p = from.kept(query, first + lane) ? W::exp(s.p - top) : 0;
          });
        },
        [](auto& s, int) { return s.p; }, [&](int, int key) { return from.row(2, key); });
    store_sums<S>(warp, lanes, out, 0, column, from.shape.head_size, from.kept_scale() / total);
  }
  warp.each(lanes, [&](int lane, auto&) {
    if (lane == 0) static_cast<S*>(args.lse)[item.lse(from.shape) + query] = top + W::log(total);
  });
}

/// `bias`: shared memory, kDistances elements.
template <class T, class S, class W>
RINGLET_WARP_CODE void attention_forward_rows(const W& warp, const AttentionArgs& args,
                                              const AttentionItem& item, S* bias) {
  const RowSource<T, S, W> from{args.shape, item, bias};
  if (args.shape.relative_bias)
    fill_bias(warp, bias, args.shape, item.head, {-kMiddle, kMiddle}, S{1});
  for (int row = 0; row < item.rows; ++row)
    attention_forward_row(warp, args, from, item.begin + row);
}

}  // namespace ringlet::cuda
