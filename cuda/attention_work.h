// Shared by both passes of the backward. The first pass has a tile of queries and all keys. It
// writes the gradient of the queries, each query's mean of grad P under P, and the gradient of the
// relative bias by bucket. The second pass has a tile of keys and all queries, and writes the
// gradients of keys and values. So each sum has one owner, which adds in order.
#pragma once

#include "ringlet/cuda/attention_bias.h"
#include "ringlet/cuda/attention_plan.h"
#include "ringlet/cuda/warp.h"

namespace ringlet::cuda {

/// Memory on the device that the first pass fills for the second.
struct AttentionWork {
  void* queries;  // (heads, T) of QuerySums
  void* buckets;  // (heads slots, 32) f32 (f64); null if the bias needs no gradient
};

/// Per query: its log-sum-exp (tiles: times log2 e) and its mean of grad P.
template <class S>
struct alignas(2 * sizeof(S)) QuerySums {
  S lse, mean;
};
template <class S>
RINGLET_HOST_DEVICE QuerySums<S>* query_sums(const AttentionWork& work, const AttentionShape& shape,
                                             const AttentionItem& item) {
  return static_cast<QuerySums<S>*>(work.queries) + item.lse(shape);
}

/// Shared memory of a warp of the first pass.
template <class S>
struct QueryPassMemory {
  AttentionItem item;
  S bias[kDistances];
  S by_distance[kDistances];  // gradient of the bias
  S skewed[16][32];           // of a tile, one column per distance
};

/// For a warp without a tile: its share of every bucket is 0.
template <class S, class W>
RINGLET_WARP_CODE void skip_query_pass(const W& warp, const AttentionWork& work,
                                       const AttentionItem& item) {
  typename W::template Lanes<int> lanes{};
  if (work.buckets)
    warp.each(lanes, [&](int lane, int&) {
      static_cast<S*>(work.buckets)[item.index * kRelativeBuckets + lane] = 0;
    });
}

/// Adds the slots part, part + kBucketParts, … of a head, for one bucket. The parts added in order
/// are the gradient of the relative bias.
inline constexpr int kBucketParts = 32;
template <class S>
RINGLET_HOST_DEVICE S sum_buckets(const S* buckets, std::int64_t slots, std::int64_t head,
                                  int bucket, int part) {
  S total = 0;
  for (std::int64_t slot = part; slot < slots; slot += kBucketParts)
    total += buckets[(head * slots + slot) * kRelativeBuckets + bucket];
  return total;
}

template <class T>
RINGLET_HOST_DEVICE const T* grad_of(const AttentionBackwardArgs& args, const AttentionItem& item) {
  return static_cast<const T*>(args.grad) + item.out(args.shape);
}
template <class T>
RINGLET_HOST_DEVICE T* grad_part(const AttentionBackwardArgs& args, const AttentionItem& item,
                                 int which) {
  return static_cast<T*>(args.grad_qkv) + item.part(args.shape, which);
}

}  // namespace ringlet::cuda
