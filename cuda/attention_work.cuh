// Shared by both passes of the backward. One pass has a tile of queries and all keys, and writes
// the gradients of the queries and, by bucket, of the relative bias. The other pass has a tile of
// keys and all queries, and writes the gradients of keys and values. So each sum has one owner,
// which adds in order. Each query's mean of grad P under P, which both passes need, is the dot
// product of the output and its gradient.
#pragma once

#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/attention_tile.cuh"

namespace ringlet::cuda {

/// Memory on the device that the passes fill.
struct AttentionWork {
  void* means;    // (heads, T) f32 (f64), from rows of queries for rows of keys
  void* buckets;  // (heads slots, 32) f32 (f64); null if the bias needs no gradient
};
template <class S>
RINGLET_HOST_DEVICE S* means_of(const AttentionWork& work, const AttentionShape& shape,
                                const AttentionItem& item) {
  return static_cast<S*>(work.means) + item.lse;
}

/// The log-sum-exps times log2 e of a tile of queries, and the means of their grad P.
struct alignas(16) QuerySums {
  float lse[kTileRows], mean[kTileRows];
};

/// Calls a copy of `body`: by reference ptxas would spill registers in fill_means().
template <class Lane, class Body>
__device__ __forceinline__ void on_lane(int lane, Lane& s, Body body) {
  body(lane, s);
}

/// Fills the means of 16 queries. `grad` and `out` of lane g are rows row(0, g) and row(1, g) of
/// the tile; their products have the means on their diagonals.
template <int kHead, class Lane, class Row>
__device__ __forceinline__ void fill_means(int lane, Lane& s, QuerySums& sums, Row row) {
  multiply_along<kHead>(s.score, s.grad, s.out);
  const auto store = [&](int lane, Lane& s) {
    const int g = lane / 4;
    if (lane % 4 != g / 2) return;
#pragma unroll
    for (int n = 0; n < 2; ++n)
      sums.mean[row(n, g)] = g % 2 ? s.score[n][2 * n + 1] : s.score[n][2 * n];
  };
  on_lane(lane, s, store);
  __syncwarp();
}

/// Shared memory of a warp.
template <class S>
struct BackwardMemory {
  AttentionItem item;
  S bias[kDistances];
  QuerySums sums;
  // The pass over queries has:
  S by_distance[kDistances];  // gradient of the bias
  S skewed[16][32];           // of a tile, one column per distance
};

/// For a warp without a tile: the share of its slot, counted over all heads, of every bucket is 0.
template <class S>
__device__ __forceinline__ void skip_query_pass(int lane, const AttentionWork& work,
                                                std::int64_t slot) {
  if (work.buckets) static_cast<S*>(work.buckets)[slot * kRelativeBuckets + lane] = 0;
}

/// Adds the slots part, part + kBucketParts, … of a head, for one bucket. The parts added in order
/// are the gradient of the relative bias.
inline constexpr int kBucketParts = 32;
template <class S>
__device__ __forceinline__ S sum_buckets(const S* buckets, int slots, int head, int bucket,
                                         int part) {
  const S* from = buckets + (std::int64_t{head} * slots + part) * kRelativeBuckets + bucket;
  S total = 0;
#pragma unroll 1
  for (int slot = part; slot < slots; slot += kBucketParts, from += kBucketParts * kRelativeBuckets)
    total += *from;
  return total;
}

template <class T>
RINGLET_HOST_DEVICE const T* grad_of(const AttentionBackwardArgs& args, const AttentionItem& item) {
  return static_cast<const T*>(args.grad) + item.out;
}
template <class T>
RINGLET_HOST_DEVICE const T* out_of(const AttentionBackwardArgs& args, const AttentionItem& item) {
  return static_cast<const T*>(args.out) + item.out;
}
template <class T>
RINGLET_HOST_DEVICE T* grad_part(const AttentionBackwardArgs& args, const AttentionItem& item,
                                 int which) {
  return static_cast<T*>(args.grad_qkv) + item.part(args.shape, which);
}

}  // namespace ringlet::cuda
