// Softmax of scores S^T (keys, queries). Queries are adjacent lanes: maxima and sums over the keys
// need no step across lanes, and all sums add the keys in the same order.
#pragma once

#include "ringlet/core/cpu/attention_item.h"
#include "ringlet/core/cpu/dropout.h"
#include "ringlet/core/cpu/philox.h"
#include "ringlet/core/cpu/simd_math.h"
#include "ringlet/core/ops/relative_position.h"

namespace ringlet::cpu::RINGLET_ISA {

// The relative bias of a head, indexed by distance, and its gradient from distances to buckets.

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

/// A vector of queries with the further inputs of their scores.
template <class S>
struct Queries {
  std::int64_t ld;    // elements between keys in the scores
  std::int64_t keys;  // that are attended to
  const S* bias;      // of key 0; the next key's is one element earlier; null without a bias
  const DropoutMask& dropout;
  const PhiloxSchedule& schedule;
  std::uint32_t sentence, head, query;  // dropout's counters of the first lane

  vector_t<S> biased(const S* scores, std::int64_t key) const {
    const vector_t<S> s = load(scores + key * ld);
    return bias ? s + load(bias - key) : s;
  }

  /// Calls body(key, drop) for every key; drop(x) is x / (1 - p), or 0 if (query, key) is dropped.
  template <class Body>
  __attribute__((always_inline)) void for_keys(Body body) const {
    if (dropout.threshold == 0) {
      for (std::int64_t key = 0; key < keys; ++key)
        body(
            key, [](vector_t<S> x) __attribute__((always_inline)) { return x; });
      return;
    }
    const PhiloxRows rows = philox_rows(schedule, sentence, head, query / 16 * 8);
    for (std::int64_t key = 0; key < keys; key += 8) {
      u32x16 words[8];
      weight_words(schedule, rows, static_cast<std::uint64_t>(key / 4), words);
      const std::int64_t end = keys - key < 8 ? keys - key : 8;
      for (std::int64_t k = 0; k < end; ++k) {
        // The first lane's: vectors of f64 have half of the queries.
        const auto* word = reinterpret_cast<const std::uint32_t*>(words + k) + query % 16;
        body(
            key + k, [&](vector_t<S> x)
                         __attribute__((always_inline)) { return drop(x, word, dropout); });
      }
    }
  }
};

/// The vector of queries from token `query` on; `bias` is indexed by distance, null without a bias.
template <class T, class S = scalar_t<T>>
RINGLET_INLINE Queries<S> queries_at(const Item<T>& item, const PhiloxSchedule& schedule,
                                     const S* bias, std::int64_t query) {
  return {item.ld,
          item.attended,
          bias ? bias + item.length - 1 + query : nullptr,
          item.all.dropout,
          schedule,
          item.id,
          static_cast<std::uint32_t>(item.all.first_head + item.head),
          static_cast<std::uint32_t>(query)};
}

/// Replaces scores by dropout(exp(scores + bias - their maximum)). Writes the sums of exp before
/// dropout to `sums`. Returns the log-sum-exp.
template <class S>
RINGLET_INLINE vector_t<S> softmax_queries(S* scores, const Queries<S>& q, vector_t<S>& sums) {
  vector_t<S> top = q.biased(scores, 0);
  for (std::int64_t key = 1; key < q.keys; ++key) top = max(q.biased(scores, key), top);
  vector_t<S> total = {};
  q.for_keys([&](std::int64_t key, auto dropped) __attribute__((always_inline)) {
    const vector_t<S> e = exp_below_88(q.biased(scores, key) - top);
    total += e;
    store(scores + key * q.ld, dropped(e));
  });
  sums = total;
  return top + log(total);
}

/// Replaces scores by P, and grad_p (the gradient of dropout(P)) by the gradient of the scores.
/// Writes dropout(P) to `kept`. Adds the gradients of the first `lanes` queries to `by_distance`
/// (at key 0, as the bias) unless null.
template <class S>
RINGLET_INLINE void backward_queries(S* scores, S* grad_p, S* kept, S* by_distance, vector_t<S> lse,
                                     std::int64_t lanes, const Queries<S>& q) {
  vector_t<S> mean = {};
  q.for_keys([&](std::int64_t key, auto dropped) __attribute__((always_inline)) {
    const vector_t<S> p = exp_below_88(q.biased(scores, key) - lse);
    const vector_t<S> g = dropped(load(grad_p + key * q.ld));
    mean = fma(p, g, mean);
    store(scores + key * q.ld, p);
    store(grad_p + key * q.ld, g);
    store(kept + key * q.ld, dropped(p));
  });
  for (std::int64_t key = 0; key < q.keys; ++key) {
    const vector_t<S> g = load(scores + key * q.ld) * (load(grad_p + key * q.ld) - mean);
    store(grad_p + key * q.ld, g);
    if (by_distance)
      store(by_distance - key, load(by_distance - key) + first_lanes(g, lanes, vector_t<S>{}));
  }
}

}  // namespace ringlet::cpu::RINGLET_ISA
