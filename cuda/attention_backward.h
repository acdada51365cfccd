// What both passes of the backward share. The first has a tile of queries and all keys: it leaves
// the gradient of the queries, every query's mean of grad P under P, and the gradient of the
// relative bias by bucket. The second has a tile of keys and all queries, and leaves the gradients
// of keys and values. So every sum has one owner, which adds in order.
#pragma once

#include "ringlet/cuda/attention_bias.h"
#include "ringlet/cuda/attention_dropout.h"
#include "ringlet/cuda/attention_tile.h"

namespace ringlet::cuda {

/// Between the passes, in device memory.
struct AttentionWork {
  void* queries;  // (heads, T) of QuerySums
  void* buckets;  // (heads slots, 32) f32 (f64); null where no gradient of the bias is asked for
};

/// Of a query: its log-sum-exp (tiles: times log2 e) and its mean of grad P.
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
  S skewed[16][32];           // of a tile, a distance to a column
};

/// What a warp without a tile leaves: no share in any bucket.
template <class S, class W>
RINGLET_WARP_CODE void skip_query_pass(const W& warp, const AttentionWork& work,
                                       const AttentionItem& item) {
  typename W::template Lanes<int> lanes{};
  if (work.buckets)
    warp.each(lanes, [&](int lane, int&) {
      static_cast<S*>(work.buckets)[item.index * kRelativeBuckets + lane] = 0;
    });
}

/// The slots part, part + kBucketParts, … of a head added, for one bucket; the parts in order make
/// the gradient of the relative bias.
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
template <class T>
RINGLET_HOST_DEVICE const T* part_of(const AttentionShape& shape, const AttentionItem& item,
                                     int which) {
  return static_cast<const T*>(shape.qkv) + item.part(shape, which);
}

}  // namespace ringlet::cuda
