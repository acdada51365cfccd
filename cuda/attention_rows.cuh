// Attention of any dtype, head size and alignment, without tensor cores. A warp takes the 16 rows
// of its tile sequentially: first 32 keys (or queries), one per lane, then one column per lane. S
// is the type of the computation: f32 for bf16.
#pragma once

#include <limits>

#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/attention_weights.cuh"
#include "ringlet/cuda/attention_work.cuh"

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
template <class S, class T>
__device__ __forceinline__ S dot(const T* a, const T* b, std::int64_t width) {
  constexpr int kRun = kDotLoads * kPack<T>;
  S sum = 0;
  std::int64_t i = 0;
  for (const bool packs = aligned16(a, b); packs && i + kRun <= width; i += kRun) {
    alignas(16) T x[kRun], y[kRun];
#pragma unroll
    for (int j = 0; j < kRun; j += kPack<T>) {
      reinterpret_cast<Words<4>&>(x[j]) = load_words<4>(a + i + j);
      reinterpret_cast<Words<4>&>(y[j]) = load_words<4>(b + i + j);
    }
#pragma unroll
    for (int j = 0; j < kRun; ++j) sum = ::fma(to_compute(x[j]), to_compute(y[j]), sum);
  }
  for (; i < width; ++i) sum = ::fma(to_compute(a[i]), to_compute(b[i]), sum);
  return sum;
}

/// One head of a sentence: rows of q, k, v, and scores and dropout of a pair of them.
template <class T, class S>
struct RowSource {
  const AttentionShape& shape;
  const AttentionItem& item;
  const S* bias;

  __device__ __forceinline__ const T* row(int which, int token) const {
    return part_of<T>(shape, item, which) + token * qkv_stride(shape);
  }
  /// The score of a pair; `distance` is key - query or an equivalent.
  __device__ __forceinline__ S score(int query, int key, int distance) const {
    const S x = dot<S>(row(0, query), row(1, key), shape.head_size) * static_cast<S>(shape.scale);
    return shape.relative_bias ? x + bias[kMiddle + distance] : x;
  }
  __device__ __forceinline__ bool kept(int query, int key) const {
    if (shape.dropout.threshold == 0) return true;
    const PhiloxBlock block =
        weight_words(shape, item, row_counter(query), static_cast<unsigned>(key) / 4);
    std::uint32_t word = block.word[0];
#pragma unroll
    for (int i = 1; i < 4; ++i) word = key % 4 == i ? block.word[i] : word;
    return keeps(word, query / 8 % 2, shape.dropout);
  }
  __device__ __forceinline__ S kept_scale() const {
    return shape.dropout.threshold ? static_cast<S>(shape.dropout.scale) : S{1};
  }
};

/// sums[sum] = over `rows` rows, the sum of get(sum), which the row's lane has, times row(sum, i).
/// `weigh(first)` fills the lanes for rows first to first + 31 before they are added.
template <int kSums, class S, class Lane, class Weigh, class Get, class Row>
__device__ __forceinline__ void add_rows(int lane, Lane& s, std::int64_t column, std::int64_t width,
                                         int rows, Weigh weigh, Get get, Row row) {
  for (int sum = 0; sum < kSums; ++sum)
    for (S& x : s.sums[sum]) x = 0;
  for (int first = 0; first < rows; first += kLanes) {
    weigh(first);
    for (int from = 0; from < kLanes && first + from < rows; ++from)
#pragma unroll
      for (int sum = 0; sum < kSums; ++sum) {
        const S weight = __shfl_sync(kAllLanes, get(sum), from);
        const auto* x = row(sum, first + from);
#pragma unroll
        for (int k = 0; k < kRowColumns; ++k)
          if (const std::int64_t i = column + lane + k * kLanes; i < width)
            s.sums[sum][k] = ::fma(weight, to_compute(x[i]), s.sums[sum][k]);
      }
  }
}
template <class S, class T, class Lane>
__device__ __forceinline__ void store_sums(int lane, Lane& s, T* to, int sum, std::int64_t column,
                                           std::int64_t width, S factor) {
  for (int k = 0; k < kRowColumns; ++k)
    if (const std::int64_t i = column + lane + k * kLanes; i < width)
      to[i] = from_compute<T>(s.sums[sum][k] * factor);
}

template <class T, class S>
__device__ __forceinline__ void attention_forward_row(int lane, const AttentionArgs& args,
                                                      const RowSource<T, S>& from, int query) {
  const AttentionItem& item = from.item;
  constexpr S kNone = -std::numeric_limits<S>::infinity();
  RowLane<S> s{};
  const auto scores = [&](int first) {
    const int distance = row_distance(first - query);
    const int key = first + lane;
    s.p = key < item.attended ? from.score(query, key, distance + lane) : kNone;
  };
  S top = kNone, total = 0;
  for (int first = 0; first < item.attended; first += kLanes) {
    scores(first);
    const S peak = warp_max(s.p);
    const S raised = ::fmax(top, peak);
    s.grad_p = ::exp(s.p - raised);
    total = total * ::exp(top - raised) + warp_sum(s.grad_p);
    top = raised;
  }
  T* out = static_cast<T*>(args.out) + item.out + query * out_stride(from.shape);
  for (std::int64_t column = 0; column < from.shape.head_size; column += kRowColumns * kLanes) {
    add_rows<1, S>(
        lane, s, column, from.shape.head_size, item.attended,
        [&](int first) {
          // One run of keys has its scores in the lanes still.
          if (item.attended > kLanes || column > 0) scores(first);
          s.p = from.kept(query, first + lane) ? ::exp(s.p - top) : 0;
        },
        [&](int) { return s.p; }, [&](int, int key) { return from.row(2, key); });
    store_sums<S>(lane, s, out, 0, column, from.shape.head_size, from.kept_scale() / total);
  }
  if (lane == 0) static_cast<S*>(args.lse)[item.lse + query] = top + ::log(total);
}

/// `bias`: shared memory, kDistances elements.
template <class T, class S>
__device__ __forceinline__ void attention_forward_rows(int lane, const AttentionArgs& args,
                                                       const AttentionItem& item, S* bias) {
  const RowSource<T, S> from{args.shape, item, bias};
  if (args.shape.relative_bias)
    fill_bias(lane, bias, args.shape, item.head, {-kMiddle, kMiddle}, S{1});
  for (int row = 0; row < item.rows; ++row)
    attention_forward_row(lane, args, from, item.begin + row);
}

// ---- backward -----------------------------------------------------------------------------

/// P and grad P of a pair, 0 where `real` is false.
template <class T, class S>
__device__ __forceinline__ void weigh_pair(const AttentionBackwardArgs& args,
                                           const RowSource<T, S>& from, int query, int key,
                                           int distance, bool real, RowLane<S>& s) {
  s.p = s.grad_p = 0;
  if (!real) return;
  const AttentionItem& item = from.item;
  const S lse = static_cast<const S*>(args.lse)[item.lse + query];
  s.p = ::exp(from.score(query, key, distance) - lse);
  if (from.kept(query, key))
    s.grad_p = dot<S>(grad_of<T>(args, item) + query * out_stride(from.shape), from.row(2, key),
                      from.shape.head_size) *
               from.kept_scale();
}

template <class T, class S>
__device__ __forceinline__ void attention_query_row(int lane, const AttentionBackwardArgs& args,
                                                    const AttentionWork& work,
                                                    const RowSource<T, S>& from, S* by_distance,
                                                    int query) {
  const AttentionItem& item = from.item;
  RowLane<S> s{};
  const auto distance_to = [&](int key) { return row_distance(key - query); };
  const auto weigh = [&](int first) {
    const int key = first + lane;
    weigh_pair(args, from, query, key, distance_to(first) + lane, key < item.attended, s);
  };
  const std::int64_t row = query * out_stride(from.shape);
  const T *grad = grad_of<T>(args, item) + row, *out = out_of<T>(args, item) + row;
  s.p = 0;
  for (std::int64_t i = lane; i < from.shape.head_size; i += kLanes)
    s.p = ::fma(to_compute(grad[i]), to_compute(out[i]), s.p);
  const S mean = warp_sum(s.p);
  T* grad_query = grad_part<T>(args, item, 0) + query * qkv_stride(from.shape);
  for (std::int64_t column = 0; column < from.shape.head_size; column += kRowColumns * kLanes) {
    add_rows<1, S>(
        lane, s, column, from.shape.head_size, item.attended,
        [&](int first) {
          weigh(first);
          s.grad_p = s.p * (s.grad_p - mean);
          if (work.buckets && column == 0)
            by_distance[kMiddle + distance_to(first) + lane] += s.grad_p;
          __syncwarp();  // distances beyond kFar share elements
        },
        [&](int) { return s.grad_p; }, [&](int, int key) { return from.row(1, key); });
    store_sums<S>(lane, s, grad_query, 0, column, from.shape.head_size,
                  static_cast<S>(from.shape.scale));
  }
  if (lane == 0) means_of<S>(work, from.shape, item)[query] = mean;
  __syncwarp();
}

template <class T, class S>
__device__ __forceinline__ void attention_query_rows(int lane, const AttentionBackwardArgs& args,
                                                     const AttentionWork& work,
                                                     const AttentionItem& item,
                                                     BackwardMemory<S>& memory) {
  constexpr DistanceRange kAll{-kMiddle, kMiddle};
  const RowSource<T, S> from{args.shape, item, memory.bias};
  if (args.shape.relative_bias) fill_bias(lane, memory.bias, args.shape, item.head, kAll, S{1});
  if (work.buckets) clear_distances(lane, memory.by_distance, kAll);
  S* const buckets =
      work.buckets ? static_cast<S*>(work.buckets) + slot_of(args.shape, item) * kRelativeBuckets
                   : nullptr;
  for (int row = 0; row < item.rows; ++row)
    attention_query_row(lane, args, work, from, memory.by_distance, item.begin + row);
  if (buckets) store_buckets(lane, buckets, memory.by_distance, kAll);
}

template <class T, class S>
__device__ __forceinline__ void attention_key_row(int lane, const AttentionBackwardArgs& args,
                                                  const AttentionWork& work,
                                                  const RowSource<T, S>& from, int key) {
  const AttentionItem& item = from.item;
  const S* means = means_of<S>(work, from.shape, item);
  T* grad_key = grad_part<T>(args, item, 1) + key * qkv_stride(from.shape);
  T* grad_value = grad_part<T>(args, item, 2) + key * qkv_stride(from.shape);
  RowLane<S> s{};
  const auto weigh = [&](int first) {
    const int lowest = row_distance(key - first - (kLanes - 1));
    const int query = first + lane;
    const bool real = query < item.length;
    weigh_pair(args, from, query, key, lowest + kLanes - 1 - lane, real, s);
    s.grad_p = real ? s.p * (s.grad_p - means[query]) : 0;
    if (real && !from.kept(query, key)) s.p = 0;
  };
  // Padding keys, which no query attends to, have no gradient.
  const int queries = key < item.attended ? item.length : 0;
  for (std::int64_t column = 0; column < from.shape.head_size; column += kRowColumns * kLanes) {
    add_rows<2, S>(
        lane, s, column, from.shape.head_size, queries, weigh,
        [&](int sum) { return sum == 0 ? s.grad_p : s.p; },
        [&](int sum, int query) {
          return sum == 0 ? from.row(0, query)
                          : grad_of<T>(args, item) + query * out_stride(from.shape);
        });
    store_sums<S>(lane, s, grad_key, 0, column, from.shape.head_size,
                  static_cast<S>(from.shape.scale));
    store_sums<S>(lane, s, grad_value, 1, column, from.shape.head_size, from.kept_scale());
  }
}

template <class T, class S>
__device__ __forceinline__ void attention_key_rows(int lane, const AttentionBackwardArgs& args,
                                                   const AttentionWork& work,
                                                   const AttentionItem& item, S* bias) {
  const RowSource<T, S> from{args.shape, item, bias};
  if (args.shape.relative_bias)
    fill_bias(lane, bias, args.shape, item.head, {-kMiddle, kMiddle}, S{1});
  for (int row = 0; row < item.rows; ++row)
    attention_key_row(lane, args, work, from, item.begin + row);
}

}  // namespace ringlet::cuda
