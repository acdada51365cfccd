#include <cstdint>

#include "ringlet/core/ops/pooling.h"

#include "ringlet/core/base/host_device.h"
#include "ringlet/core/device/dispatch.h"
#include "ringlet/core/ops/bad_input.h"
#include "ringlet/cuda/bad_input.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/rows.cuh"

namespace ringlet::cuda {

// The assignment of columns to threads. A thread pools a few neighbouring columns of one sentence
// and reads its tokens in order.

struct PoolingPiece {
  std::int64_t sentence;
  std::int64_t column;  // the first of them
  std::int64_t begin;   // its first token
  std::int64_t end;     // behind the last that counts
  std::int64_t limit;   // behind the last
};

/// `Args` has sentences, tokens, columns, cu_seqlens (sentences + 1) and lengths (sentences), null
/// where all tokens of a sentence count; pieces have `kColumns` columns, the last of a sentence
/// what is left. A sentence out of bounds has no tokens.
template <int kColumns, class Args>
RINGLET_HOST_DEVICE std::int64_t count_pieces(const Args& args) {
  return args.sentences * ((args.columns + kColumns - 1) / kColumns);
}

template <int kColumns, class Args>
RINGLET_HOST_DEVICE PoolingPiece piece_of(const Args& args, std::int64_t i) {
  const std::int64_t per_sentence = (args.columns + kColumns - 1) / kColumns;
  const std::int64_t s = i / per_sentence, begin = args.cu_seqlens[s];
  if (!bounds_of(args).hold(s)) return {s, i % per_sentence * kColumns, 0, 0, 0};
  const std::int64_t limit = args.cu_seqlens[s + 1];
  return {s, i % per_sentence * kColumns, begin, args.lengths ? begin + args.lengths[s] : limit,
          limit};
}

namespace {

constexpr double kSmallestCount = 1e-9;

template <class S>
__device__ __forceinline__ S count_of(std::int64_t tokens) {
  return tokens > 0 ? static_cast<S>(tokens) : static_cast<S>(kSmallestCount);
}

// ---- forward ------------------------------------------------------------------------------

template <bool kVector, class T, class S, int V>
__device__ __forceinline__ void mean_columns(const PoolingArgs& args, const PoolingPiece& piece,
                                             S (&out)[V]) {
  const T* const x = static_cast<const T*>(args.x);
  S total[V] = {}, value[V];
#pragma unroll 8
  for (std::int64_t t = piece.begin; t < piece.end; ++t) {
    load_row<kVector>(x + t * args.columns, piece.column, args.columns, value);
#pragma unroll
    for (int i = 0; i < V; ++i) total[i] += value[i];
  }
  const S count = count_of<S>(piece.end - piece.begin);
#pragma unroll
  for (int i = 0; i < V; ++i) out[i] = total[i] / count;
}

// The first of equal maxima; NaN is larger than anything, as in PyTorch. `out` holds the first
// token's columns.
template <bool kVector, class T, class S, int V>
__device__ __forceinline__ void max_columns(const PoolingArgs& args, const PoolingPiece& piece,
                                            S (&out)[V]) {
  const T* const x = static_cast<const T*>(args.x);
  std::int32_t place[V];
  S value[V];
#pragma unroll
  for (int i = 0; i < V; ++i) place[i] = static_cast<std::int32_t>(piece.begin);
#pragma unroll 4
  for (std::int64_t t = piece.begin + 1; t < piece.end; ++t) {
    load_row<kVector>(x + t * args.columns, piece.column, args.columns, value);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const bool better = out[i] == out[i] && !(value[i] <= out[i]);
      out[i] = better ? value[i] : out[i];
      place[i] = better ? static_cast<std::int32_t>(t) : place[i];
    }
  }
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (piece.column + i < args.columns)
      args.argmax[piece.sentence * args.columns + piece.column + i] = place[i];
}

template <class T, bool kVector>
__global__ void __launch_bounds__(kThreads)
    pool_sentences(PoolingArgs args, std::int64_t pieces, BadInputReport report) {
  using S = compute_t<T>;
  constexpr int V = kPack<T>;
  grid_stride(pieces, [&](std::int64_t i) {
    const PoolingPiece piece = piece_of<V>(args, i);
    const std::int64_t s = piece.sentence;
    const bool holds = bounds_of(args).hold(s);
    if (!holds) report(BadInputKind::sentence, s, args.cu_seqlens[s], args.cu_seqlens[s + 1]);
    S out[V];
    if (holds && args.mode == PoolingMode::mean) {
      mean_columns<kVector, T>(args, piece, out);
    } else if (piece.begin < piece.limit) {
      load_row<kVector>(static_cast<const T*>(args.x) + piece.begin * args.columns, piece.column,
                        args.columns, out);
      if (args.mode == PoolingMode::max) max_columns<kVector, T>(args, piece, out);
    } else {
#pragma unroll
      for (int k = 0; k < V; ++k) {
        out[k] = static_cast<S>(NAN);
        if (args.mode == PoolingMode::max && piece.column + k < args.columns)
          args.argmax[piece.sentence * args.columns + piece.column + k] = -1;
      }
    }
    store_row<kVector>(static_cast<S*>(args.out) + piece.sentence * args.columns, piece.column,
                       args.columns, out);
  });
}

template <class T>
void pooling(const PoolingArgs& args, Device device) {
  const bool vector = rows_fit_packs<T>(args.columns, args.out, args.x);
  const std::int64_t pieces = count_pieces<kPack<T>>(args);
  launch("pooling", device, vector ? pool_sentences<T, true> : pool_sentences<T, false>,
         grid_for(pieces), kThreads, 0, args, pieces, BadInputReport(device));
}

// ---- backward -----------------------------------------------------------------------------

template <class T, bool kVector>
__global__ void __launch_bounds__(kThreads)
    pool_sentences_backward(PoolingBackwardArgs args, std::int64_t pieces) {
  using S = compute_t<T>;
  constexpr int V = kPack<T>;
  grid_stride(pieces, [&](std::int64_t i) {
    const PoolingPiece piece = piece_of<V>(args, i);
    const std::int64_t at = piece.sentence * args.columns;
    S grad[V];
    load_row<kVector>(static_cast<const S*>(args.grad) + at, piece.column, args.columns, grad);
    std::int64_t place[V];  // of the token that each column came from; of all that count
#pragma unroll
    for (int k = 0; k < V; ++k) {
      place[k] = piece.begin;
      if (args.mode == PoolingMode::mean) grad[k] /= count_of<S>(piece.end - piece.begin);
      if (args.mode == PoolingMode::max && piece.column + k < args.columns)
        place[k] = args.argmax[at + piece.column + k];
    }
    T* const grad_x = static_cast<T*>(args.grad_x);
    for (std::int64_t t = piece.begin; t < piece.limit; ++t) {
      S out[V];
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const bool counts = args.mode == PoolingMode::mean ? t < piece.end : t == place[k];
        out[k] = counts ? grad[k] : S{0};
      }
      store_row<kVector>(grad_x + t * args.columns, piece.column, args.columns, out);
    }
  });
}

template <class T>
void pooling_backward(const PoolingBackwardArgs& args, Device device) {
  const bool vector = rows_fit_packs<T>(args.columns, args.grad_x, args.grad);
  const std::int64_t pieces = count_pieces<kPack<T>>(args);
  launch("pooling_backward", device,
         vector ? pool_sentences_backward<T, true> : pool_sentences_backward<T, false>,
         grid_for(pieces), kThreads, 0, args, pieces);
}

}  // namespace

void register_pooling() {
  RINGLET_SET_FLOATING(cuda, pooling);
  RINGLET_SET_FLOATING(cuda, pooling_backward);
}

}  // namespace ringlet::cuda
