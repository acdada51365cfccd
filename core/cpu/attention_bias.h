// The relative bias of a head, indexed by distance, and its gradient from distances to buckets.
#pragma once

#include "ringlet/core/cpu/attention_item.h"

namespace ringlet::cpu::RINGLET_ISA {

// The buckets of distances -kFar to kFar; larger distances have the bucket of the nearer end.
inline constexpr std::int64_t kFar = 128;
struct BucketTable {
  std::uint8_t bucket[2 * kFar + 1];
  constexpr BucketTable() : bucket() {
    for (std::int64_t i = 0; i <= 2 * kFar; ++i)
      bucket[i] = static_cast<std::uint8_t>(relative_position_bucket(i - kFar));
  }
  int operator()(std::int64_t distance) const {
    return bucket[kFar + (distance < -kFar ? -kFar : distance > kFar ? kFar : distance)];
  }
};
inline constexpr BucketTable kBucketOf;

/// Elements of a row indexed by distance: element L - 1 + query - key has distance key - query.
/// Adjacent queries read adjacent elements, and the next key starts one element earlier.
template <class T>
RINGLET_INLINE std::int64_t distances(const Item<T>& item) {
  return 2 * item.length + Compute<T>::kLanes;
}

template <class T, class S = scalar_t<T>>
void relative_bias(S* bias, const Item<T>& item) {
  const S* table = static_cast<const S*>(item.all.relative_bias) + item.head;
  const std::int64_t last = item.length - 1;
  for (std::int64_t i = 0; i < distances(item); ++i)
    bias[i] = i <= 2 * last ? table[kBucketOf(last - i) * item.all.heads] : S{0};
}

/// Sums the elements of a row by distance into buckets.
template <class T, class S = scalar_t<T>>
void sum_buckets(S* buckets, const S* by_distance, const Item<T>& item) {
  const std::int64_t last = item.length - 1;
  for (int b = 0; b < kRelativeBuckets; ++b) buckets[b] = 0;
  for (std::int64_t i = 0; i <= 2 * last; ++i) buckets[kBucketOf(last - i)] += by_distance[i];
}

}  // namespace ringlet::cpu::RINGLET_ISA
