#include "ringlet/core/ops/embedding.h"

#include "ringlet/core/cpu/layer_norm_row.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

template <class T, class S = scalar_t<T>>
void embedding(const EmbeddingArgs& args, Device device) {
  for_each(device, args.tokens, kGrain / args.columns + 1, [&](std::int64_t t) {
    copy_row(static_cast<T*>(args.out) + t * args.columns,
             static_cast<const S*>(args.weight) + args.ids[t] * args.columns, args.columns);
  });
}

// ---- backward -----------------------------------------------------------------------------

// The tokens of each id as a chain in token order: first[id], next[token], -1 at the end.
void chain_tokens(const EmbeddingBackwardArgs& args, std::int32_t* first) {
  memset(first, 0xff, static_cast<std::size_t>(args.rows) * sizeof(std::int32_t));
  for (std::int64_t t = args.tokens - 1; t >= 0; --t) {
    if (args.ids[t] == args.padding) continue;
    args.next[t] = first[args.ids[t]];
    first[args.ids[t]] = static_cast<std::int32_t>(t);
  }
}

// Columns [begin, end) of one id's row; sums four adjacent vectors along the id's chain.
template <class T, class S = scalar_t<T>>
RINGLET_INLINE void sum_chain(const EmbeddingBackwardArgs& args, const std::int32_t* first,
                              std::int64_t id, std::int64_t begin, std::int64_t end) {
  constexpr int kLanes = Compute<T>::kLanes;
  const T* grad = static_cast<const T*>(args.grad);
  S* out = static_cast<S*>(args.grad_weight) + id * args.columns;
  std::int64_t c = begin;
  for (; c + 4 * kLanes <= end; c += 4 * kLanes) {
    vector_t<T> total[4] = {};
    for (std::int32_t t = first[id]; t >= 0; t = args.next[t])
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) total[k] += load(grad + t * args.columns + c + k * kLanes);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      S* at = out + c + k * kLanes;
      store(at, args.beta != 0 ? total[k] + load(at) : total[k]);
    }
  }
  for (; c < end; c += kLanes) {
    const std::int64_t lanes = end - c < kLanes ? end - c : kLanes;
    vector_t<T> total = {};
    for (std::int32_t t = first[id]; t >= 0; t = args.next[t])
      total += load_at(grad + t * args.columns, c, lanes);
    store_at(out, c, lanes, args.beta != 0 ? total + load_at(out, c, lanes) : total);
  }
}

// Ids [begin, end); adjacent ids without tokens are cleared in one call.
template <class T, class S = scalar_t<T>>
void sum_ids(const EmbeddingBackwardArgs& args, const std::int32_t* first, std::int64_t begin,
             std::int64_t end) {
  for (std::int64_t id = begin; id < end;) {
    if (first[id] >= 0) {
      sum_chain<T>(args, first, id++, 0, args.columns);
      continue;
    }
    const std::int64_t from = id;
    while (id < end && first[id] < 0) ++id;
    if (args.beta == 0)
      memset(static_cast<S*>(args.grad_weight) + from * args.columns, 0,
             static_cast<std::size_t>((id - from) * args.columns) * sizeof(S));
  }
}

template <class T>
void embedding_backward(const EmbeddingBackwardArgs& args, Device device) {
  constexpr std::int64_t kSmallTable = 64;
  const Scratch memory(static_cast<std::size_t>(args.rows) * sizeof(std::int32_t));
  auto* const first = memory.as<std::int32_t>();  // (V)
  chain_tokens(args, first);
  if (args.rows > kSmallTable)
    return parallel_for(
        device, args.rows, kGrain / args.columns + 1,
        [&](std::int64_t begin, std::int64_t end) { sum_ids<T>(args, first, begin, end); });
  // Few ids have many tokens each: threads split the columns instead.
  parallel_for(device, args.columns, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t id = 0; id < args.rows; ++id)
      if (first[id] >= 0 || args.beta == 0) sum_chain<T>(args, first, id, begin, end);
  });
}

// ---- sum and LayerNorm --------------------------------------------------------------------

template <class T>
void sum_tables(const EmbeddingSumArgs& args, std::int64_t begin, std::int64_t end) {
  using S = scalar_t<T>;
  const std::int64_t columns = args.columns, drawn = row_words(columns);
  const Scratch memory(static_cast<std::size_t>(drawn) * (sizeof(S) + sizeof(std::uint32_t)));
  S* z = memory.as<S>();
  auto* words = args.dropout.threshold > 0 ? reinterpret_cast<std::uint32_t*>(z + drawn) : nullptr;
  const PhiloxSchedule keys = schedule(key_of(args.dropout));
  for (std::int64_t t = begin; t < end; ++t) {
    const S* row[3];
    for (int i = 0; i < 3; ++i)
      row[i] = args.table[i] ? row_of<const S>(args.table[i], args.ids[i][t], columns) : nullptr;
    for_vectors<S>(columns, [&](std::int64_t i, std::int64_t lanes) {
      vector_t<S> v = load_at(row[0], i, lanes);
      if (row[1]) v += load_at(row[1], i, lanes);
      if (row[2]) v += load_at(row[2], i, lanes);
      store_at(z, i, lanes, v);
    });
    const RowMoments<S> moments = row_moments(z, columns, args.eps);
    static_cast<S*>(args.rstd)[t] = moments.rstd;
    if (words) draw_row(words, args.dropout, keys, t, columns);
    normalize_row(static_cast<T*>(args.y) + t * columns,
                  static_cast<T*>(args.normalized) + t * columns, z, moments,
                  static_cast<const S*>(args.weight), static_cast<const S*>(args.bias), words,
                  args.dropout, columns);
  }
}

template <class T>
void embedding_sum_layer_norm(const EmbeddingSumArgs& args, Device device) {
  parallel_for(device, args.tokens, kGrain / args.columns + 1,
               [&](std::int64_t begin, std::int64_t end) { sum_tables<T>(args, begin, end); });
}

}  // namespace

void register_embedding() {
  RINGLET_SET_FLOATING(cpu, embedding);
  RINGLET_SET_FLOATING(cpu, embedding_backward);
  RINGLET_SET_FLOATING(cpu, embedding_sum_layer_norm);
}

}  // namespace ringlet::cpu::RINGLET_ISA
