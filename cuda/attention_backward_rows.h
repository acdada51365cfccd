// The backward without tensor cores; see attention_rows.h.
#pragma once

#include "ringlet/cuda/attention_rows.h"
#include "ringlet/cuda/attention_work.h"

namespace ringlet::cuda {

/// P and grad P of a pair, 0 where `real` is false.
template <class T, class S, class W>
RINGLET_WARP_CODE void weigh_pair(const AttentionBackwardArgs& args, const RowSource<T, S, W>& from,
                                  int query, int key, int distance, bool real, RowLane<S>& s) {
  s.p = s.grad_p = 0;
  if (!real) return;
  const AttentionItem& item = from.item;
  const S lse = static_cast<const S*>(args.lse)[item.lse(from.shape) + query];
  s.p = W::exp(from.score(query, key, distance) - lse);
  if (from.kept(query, key))
    s.grad_p = dot<S, W>(grad_of<T>(args, item) + query * out_stride(from.shape), from.row(2, key),
                         from.shape.head_size) *
               from.kept_scale();
}

template <class T, class S, class W>
RINGLET_WARP_CODE void attention_query_row(const W& warp, const AttentionBackwardArgs& args,
                                           const AttentionWork& work,
                                           const RowSource<T, S, W>& from, S* by_distance,
                                           int query) {
  const AttentionItem& item = from.item;
  typename W::template Lanes<RowLane<S>> lanes{};
  const auto distance_to = [&](int key) { return row_distance(std::int64_t{key} - query); };
  const auto weigh = [&](int first) {
    warp.each(lanes, [&](int lane, auto& s) {
      const int key = first + lane;
      weigh_pair(args, from, query, key, distance_to(first) + lane, key < item.attended, s);
    });
  };
  const std::int64_t row = query * out_stride(from.shape);
  const T *grad = grad_of<T>(args, item) + row, *out = out_of<T>(args, item) + row;
  warp.each(lanes, [&](int lane, auto& s) {
    s.p = 0;
    for (std::int64_t i = lane; i < from.shape.head_size; i += kLanes)
      s.p = W::fma(W::template widen<S>(grad[i]), W::template widen<S>(out[i]), s.p);
  });
  const S mean = warp.sum(lanes, [](auto& s) { return s.p; });
  T* grad_query = grad_part<T>(args, item, 0) + query * qkv_stride(from.shape);
  for (std::int64_t column = 0; column < from.shape.head_size; column += kRowColumns * kLanes) {
    add_rows<1, S>(
        warp, lanes, column, from.shape.head_size, item.attended,
        [&](int first) {
          weigh(first);
          warp.each(lanes, [&](int lane, auto& s) {
            s.grad_p = s.p * (s.grad_p - mean);
            if (work.buckets && column == 0)
              by_distance[kMiddle + distance_to(first) + lane] += s.grad_p;
          });
          warp.sync();  // distances beyond kFar share elements
        },
        [](auto& s, int) { return s.grad_p; }, [&](int, int key) { return from.row(1, key); });
    store_sums<S>(warp, lanes, grad_query, 0, column, from.shape.head_size,
                  static_cast<S>(from.shape.scale));
  }
  warp.each(lanes, [&](int lane, auto&) {
    if (lane == 0) means_of<S>(work, from.shape, item)[query] = mean;
  });
  warp.sync();
}

template <class T, class S, class W>
RINGLET_WARP_CODE void attention_query_rows(const W& warp, const AttentionBackwardArgs& args,
                                            const AttentionWork& work, const AttentionItem& item,
                                            BackwardMemory<S>& memory) {
  constexpr DistanceRange kAll{-kMiddle, kMiddle};
  const RowSource<T, S, W> from{args.shape, item, memory.bias};
  if (args.shape.relative_bias) fill_bias(warp, memory.bias, args.shape, item.head, kAll, S{1});
  if (work.buckets) clear_distances(warp, memory.by_distance, kAll);
  for (int row = 0; row < item.rows; ++row)
    attention_query_row(warp, args, work, from, memory.by_distance, item.begin + row);
  if (work.buckets)
    store_buckets(warp, static_cast<S*>(work.buckets) + item.index * kRelativeBuckets,
                  memory.by_distance, kAll);
}

template <class T, class S, class W>
RINGLET_WARP_CODE void attention_key_row(const W& warp, const AttentionBackwardArgs& args,
                                         const AttentionWork& work, const RowSource<T, S, W>& from,
                                         int key) {
  const AttentionItem& item = from.item;
  const S* means = means_of<S>(work, from.shape, item);
  T* grad_key = grad_part<T>(args, item, 1) + key * qkv_stride(from.shape);
  T* grad_value = grad_part<T>(args, item, 2) + key * qkv_stride(from.shape);
  typename W::template Lanes<RowLane<S>> lanes{};
  const auto weigh = [&](int first) {
    const int lowest = row_distance(std::int64_t{key} - first - (kLanes - 1));
    warp.each(lanes, [&](int lane, auto& s) {
      const int query = first + lane;
      const bool real = query < item.length;
      weigh_pair(args, from, query, key, lowest + kLanes - 1 - lane, real, s);
      s.grad_p = real ? s.p * (s.grad_p - means[query]) : 0;
      if (real && !from.kept(query, key)) s.p = 0;
    });
  };
  // Padding keys, which no query attends to, have no gradient.
  const int queries = key < item.attended ? item.length : 0;
  for (std::int64_t column = 0; column < from.shape.head_size; column += kRowColumns * kLanes) {
    add_rows<2, S>(
        warp, lanes, column, from.shape.head_size, queries, weigh,
        [](auto& s, int sum) { return sum == 0 ? s.grad_p : s.p; },
        [&](int sum, int query) {
          return sum == 0 ? from.row(0, query)
                          : grad_of<T>(args, item) + query * out_stride(from.shape);
        });
    store_sums<S>(warp, lanes, grad_key, 0, column, from.shape.head_size,
                  static_cast<S>(from.shape.scale));
    store_sums<S>(warp, lanes, grad_value, 1, column, from.shape.head_size, from.kept_scale());
  }
}

template <class T, class S, class W>
RINGLET_WARP_CODE void attention_key_rows(const W& warp, const AttentionBackwardArgs& args,
                                          const AttentionWork& work, const AttentionItem& item,
                                          S* bias) {
  const RowSource<T, S, W> from{args.shape, item, bias};
  if (args.shape.relative_bias)
    fill_bias(warp, bias, args.shape, item.head, {-kMiddle, kMiddle}, S{1});
  for (int row = 0; row < item.rows; ++row)
    attention_key_row(warp, args, work, from, item.begin + row);
}

}  // namespace ringlet::cuda
