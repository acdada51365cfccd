// The gradient of attention through one head of one sentence.
#pragma once

#include "ringlet/core/cpu/attention_softmax.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/cpu/small_matmul.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

template <class T>
std::int64_t backward_memory(const Item<T>& item) {
  return (2 * item.width + 3 * item.attended) * item.ld +
         (3 * kQueryBlock + 4 * item.length) * item.columns + 2 * distances(item) +
         2 * Compute<T>::kLanes;
}

// Inputs and results of a block of queries, all in working memory.
template <class S>
struct BackwardMemory {
  S *qt, *grad_t;        // (d, queries) scaled queries and gradients of the output
  S *p, *grad_p, *kept;  // (keys, queries)
  S *q, *grad, *grad_q;  // (queries, d)
  S *k, *v;              // (keys, d)
  S *grad_k, *grad_v;    // (keys, d) sums over the blocks
  S *bias, *grad_bias;   // by distance; null without a bias
};
template <class T, class S = scalar_t<T>>
BackwardMemory<S> share(S* memory, const Item<T>& item, bool bias, bool grad_bias) {
  Pieces<S> pieces(memory);
  const auto take = [&](std::int64_t rows, std::int64_t ld) { return pieces.take(rows * ld); };
  BackwardMemory<S> m;
  m.qt = take(item.width, item.ld), m.grad_t = take(item.width, item.ld);
  m.p = take(item.attended, item.ld), m.grad_p = take(item.attended, item.ld);
  m.kept = take(item.attended, item.ld);
  m.q = take(kQueryBlock, item.columns), m.grad = take(kQueryBlock, item.columns);
  m.grad_q = take(kQueryBlock, item.columns);
  m.k = take(item.length, item.columns), m.v = take(item.length, item.columns);
  m.grad_k = take(item.length, item.columns), m.grad_v = take(item.length, item.columns);
  m.bias = bias ? take(1, distances(item)) : nullptr;
  m.grad_bias = grad_bias ? take(1, distances(item)) : nullptr;
  return m;
}

// dropout(P) and the gradient of the scores of `rows` queries from `begin` on.
template <class T, class S = scalar_t<T>>
RINGLET_INLINE void backward_scores(const Item<T>& item, const PhiloxSchedule& schedule,
                                    const S* lse, const BackwardMemory<S>& m, std::int64_t begin,
                                    std::int64_t rows) {
  constexpr int kLanes = Compute<S>::kLanes;
  for (std::int64_t i = 0; i < rows; i += kLanes) {
    // Lanes beyond the queries have P = 0, or NaN beside an infinite key or value.
    const std::int64_t lanes = rows - i < kLanes ? rows - i : kLanes;
    const vector_t<S> own =
        first_lanes(load_at(lse + begin, i, lanes), lanes, splat(static_cast<S>(INFINITY)));
    S* by_distance = m.grad_bias ? m.grad_bias + item.length - 1 + begin + i : nullptr;
    backward_queries(m.p + i, m.grad_p + i, m.kept + i, by_distance, own, lanes,
                     queries_at(item, schedule, static_cast<const S*>(m.bias), begin + i));
  }
}

// `shares` (S, heads, 32) receives the item's share in grad_relative_bias, unless it is null.
template <class T, class S = scalar_t<T>>
void backward_item(const AttentionBackwardArgs& args, const Item<T>& item, const Item<T>& next,
                   const PhiloxSchedule& schedule, S* shares) {
  const std::int64_t ld = item.ld, columns = item.columns, width = item.width;
  const std::int64_t length = item.length, keys = item.attended;
  const std::int64_t out_stride = item.all.heads * width;
  const S scale = static_cast<S>(item.all.scale);
  const Scratch memory(static_cast<std::size_t>(backward_memory(item)) * sizeof(S));
  const auto m = share(memory.as<S>(), item, item.all.relative_bias, shares);
  const auto k = head_rows(item.in(1), item.stride, keys, item, m.k);
  const auto v = head_rows(item.in(2), item.stride, keys, item, m.v);
  if (m.bias) relative_bias(m.bias, item);
  // No query attends to padding, so its keys and values get no gradient.
  for (S* unattended : {m.grad_k + keys * columns, m.grad_v + keys * columns})
    memset(unattended, 0, static_cast<std::size_t>((length - keys) * columns) * sizeof(S));
  if (m.grad_bias) memset(m.grad_bias, 0, static_cast<std::size_t>(distances(item)) * sizeof(S));

  const S* lse = static_cast<const S*>(args.lse) + item.lse_offset(0);
  T* grad_qkv = static_cast<T*>(args.grad_qkv);
  for (std::int64_t begin = 0; begin < length; begin += kQueryBlock) {
    const std::int64_t rows = item.queries(begin), wide = padded<S>(rows);
    const T* out_grad = static_cast<const T*>(args.grad) + item.out_offset(begin);
    transpose(m.qt, ld, item.in(0, begin), item.stride, rows, width, scale);
    transpose(m.grad_t, ld, out_grad, out_stride, rows, width, S{1});
    fetch_rows<1>(grad_qkv + item.offset(0, begin), item.stride, item, rows);
    small_matmul(m.p, ld, SmallMatrix<S>{k.data, k.stride, 1}, m.qt, ld, keys, wide, width);
    fetch_rows<0>(next.in(1), next.stride, next, next.queries(0));
    small_matmul(m.grad_p, ld, SmallMatrix<S>{v.data, v.stride, 1}, m.grad_t, ld, keys, wide,
                 width);
    fetch_rows<1>(grad_qkv + item.offset(1, begin), item.stride, item, rows);
    backward_scores(item, schedule, lse, m, begin, rows);
    fetch_rows<1>(grad_qkv + item.offset(2, begin), item.stride, item, rows);

    const auto q = head_rows(item.in(0, begin), item.stride, rows, item, m.q);
    const auto grad = head_rows(out_grad, out_stride, rows, item, m.grad);
    const bool adds = begin > 0;
    small_matmul(m.grad_v, columns, SmallMatrix<S>{m.kept, ld, 1}, grad.data, grad.stride, keys,
                 columns, rows, adds);
    fetch_rows<0>(next.in(0), next.stride, next, next.queries(0));
    small_matmul(m.grad_k, columns, SmallMatrix<S>{m.grad_p, ld, 1}, q.data, q.stride, keys,
                 columns, rows, adds);
    fetch_rows<0>(next.in(2), next.stride, next, next.queries(0));
    small_matmul(m.grad_q, columns, SmallMatrix<S>{m.grad_p, 1, ld}, k.data, k.stride, rows,
                 columns, keys);
    fetch_rows<0>(static_cast<const T*>(args.grad) + next.out_offset(0), out_stride, next,
                  next.queries(0));
    scatter_rows(grad_qkv + item.offset(0, begin), item.stride, m.grad_q, rows, item,
                 [&](std::int64_t) { return scale; });
  }
  scatter_rows(grad_qkv + item.offset(1, 0), item.stride, m.grad_k, length, item,
               [&](std::int64_t) { return scale; });
  scatter_rows(grad_qkv + item.offset(2, 0), item.stride, m.grad_v, length, item,
               [](std::int64_t) { return S{1}; });
  if (m.grad_bias)
    sum_buckets(shares + (item.sentence * item.all.heads + item.head) * kRelativeBuckets,
                m.grad_bias, item);
}

// grad_relative_bias (32, heads) = beta * itself + the sentences' shares, added in order.
template <class S>
void add_shares(const AttentionBackwardArgs& args, const S* shares) {
  constexpr int kLanes = Compute<S>::kLanes;
  const std::int64_t heads = args.shape.heads;
  S* out = static_cast<S*>(args.grad_relative_bias);
  for (std::int64_t head = 0; head < heads; ++head)
    for (int bucket = 0; bucket < kRelativeBuckets; bucket += kLanes) {
      vector_t<S> total = {};
      for (std::int64_t s = 0; s < args.shape.sentences; ++s)
        total += load(shares + (s * heads + head) * kRelativeBuckets + bucket);
      for (int lane = 0; lane < kLanes; ++lane) {
        S& to = out[(bucket + lane) * heads + head];
        to = args.beta != 0 ? to + total[lane] : total[lane];
      }
    }
}

}  // namespace
}  // namespace ringlet::cpu::RINGLET_ISA
