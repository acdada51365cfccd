#include "ringlet/core/ops/embedding.h"

#include <algorithm>

#include "ringlet/cuda/bad_input.h"
#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/embedding_backward.cuh"
#include "ringlet/cuda/normalize_rows.cuh"
#include "ringlet/cuda/register.h"
#include "ringlet/cuda/sort.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

// Columns [column, column + V) of a table's row; NaN for an id that has none.
template <bool kVector, class S, int V>
__device__ __forceinline__ void load_id(const S* table, std::int64_t rows, std::int32_t id,
                                        std::int64_t column, std::int64_t columns, S (&to)[V]) {
  const bool known = id >= 0 && id < rows;
  load_row<kVector>(table + (known ? id : 0) * columns, column, known ? columns : 0, to);
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (!known) to[i] = static_cast<S>(NAN);
}

__device__ __forceinline__ void check_id(const BadInputReport& report, BadInputKind kind,
                                         std::int64_t token, std::int32_t id, std::int64_t rows) {
  if (id < 0 || id >= rows) report(kind, token, id, rows);
}

template <class T, bool kVector>
__global__ void __launch_bounds__(kThreads)
    embedding_rows(EmbeddingArgs args, BadInputReport report) {
  using S = compute_t<T>;
  constexpr int V = kPack<T>;
  for_team_rows<WarpTeam>(args.tokens, [&](std::int64_t t) {
    const std::int32_t id = args.ids[t];
    check_id(report, BadInputKind::word_id, t, id, args.rows);
    T* const out = static_cast<T*>(args.out) + t * args.columns;
    for (std::int64_t column = team_lane<WarpTeam>() * V; column < args.columns;
         column += kWarp * V) {
      S values[V];
      load_id<kVector>(static_cast<const S*>(args.weight), args.rows, id, column, args.columns,
                       values);
      store_row<kVector>(out, column, args.columns, values);
    }
  });
}

void embedding(const EmbeddingArgs& args, Device device) {
  dispatch_floating("embedding", args.dtype, [&]<class T>() {
    const bool vector = rows_fit_packs<T>(args.columns, args.out, args.weight);
    launch("embedding", device, vector ? embedding_rows<T, true> : embedding_rows<T, false>,
           grid_for(args.tokens, kThreads / kWarp), kThreads, 0, args, BadInputReport(device));
  });
}

// ---- backward -----------------------------------------------------------------------------

__global__ void embedding_keys(const std::int32_t* ids, std::uint32_t* keys, std::int32_t* tokens,
                               std::int64_t count, std::int64_t rows, std::int32_t padding) {
  grid_stride(count, [&](std::int64_t t) {
    keys[t] = embedding_key(ids[t] == padding ? -1 : ids[t], rows);
    tokens[t] = static_cast<std::int32_t>(t);
  });
}

template <class T>
void add_runs(const EmbeddingRuns<T>& runs, Device device) {
  const bool vector = rows_fit_packs<T>(runs.columns, runs.grad, runs.grad_weight);
  launch("embedding_backward", device,
         vector ? embedding_short_runs<T, true> : embedding_short_runs<T, false>,
         grid_for(runs.count, kThreads / kWarp), kThreads, 0, runs);
  const auto windows =
      static_cast<unsigned>((runs.count + kLongEmbeddingRun - 1) / kLongEmbeddingRun);
  const auto tiles = static_cast<unsigned>((runs.columns + kWarp - 1) / kWarp);
  launch("embedding_backward", device, embedding_long_runs<T>, dim3(windows, tiles),
         dim3(kWarp, kRunRows), 0, runs);
}

void embedding_backward(const EmbeddingBackwardArgs& args, Device device) {
  dispatch_floating("embedding_backward", args.dtype, [&]<class T>() {
    using S = compute_t<T>;
    if (args.beta == 0) {
      const DeviceGuard guard(device);
      RINGLET_CUDA(cudaMemsetAsync(args.grad_weight, 0,
                                   static_cast<std::size_t>(args.rows * args.columns) * sizeof(S),
                                   current_stream(device)));
    }
    if (args.tokens == 0) return;
    // Behind all ids, which have 31 bits.
    const std::int64_t rows = std::min(args.rows, std::int64_t{1} << 31);
    const Workspace memory(device,
                           3 * static_cast<std::size_t>(args.tokens) * sizeof(std::int32_t));
    auto* const keys = memory.as<std::uint32_t>();
    auto* const sorted = keys + args.tokens;
    auto* const tokens = memory.as<std::int32_t>() + 2 * args.tokens;
    launch("embedding_backward", device, embedding_keys, grid_for(args.tokens), kThreads, 0,
           args.ids, keys, tokens, args.tokens, rows, args.padding);
    sort_pairs(device, keys, sorted, tokens, args.next, args.tokens, key_bits(rows));
    add_runs(EmbeddingRuns<T>{static_cast<S*>(args.grad_weight), static_cast<const T*>(args.grad),
                              sorted, args.next, args.tokens, rows, args.columns, args.beta != 0},
             device);
  });
}

// ---- sum and LayerNorm --------------------------------------------------------------------

// z = the sum of up to three tables' rows: the Source of normalize_rows.cuh.
template <class S>
struct SummedRows {
  const S* table[3];
  const std::int32_t* ids[3];
  std::int64_t rows[3];
  BadInputReport report;

  template <bool kVector, int kChunks, int V>
  __device__ __forceinline__ void load(std::int64_t row, std::int64_t columns, std::int64_t first,
                                       S (&z)[kChunks][V]) const {
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      if (!table[i]) continue;
      const std::int32_t id = ids[i][row];
      check_id(report, id_kind(i), row, id, rows[i]);
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        S values[V];
        load_id<kVector>(table[i], rows[i], id, first + k * kWarp * V, columns, values);
#pragma unroll
        for (int j = 0; j < V; ++j) z[k][j] = i == 0 ? values[j] : z[k][j] + values[j];
      }
    }
  }
};

void embedding_sum_layer_norm(const EmbeddingSumArgs& args, Device device) {
  dispatch_floating("embedding_sum_layer_norm", args.dtype, [&]<class T>() {
    using S = compute_t<T>;
    SummedRows<S> source{{}, {}, {}, BadInputReport(device)};
    for (int i = 0; i < 3; ++i) {
      source.table[i] = static_cast<const S*>(args.table[i]);
      source.ids[i] = args.ids[i];
      source.rows[i] = args.rows[i];
    }
    const NormalizedRows<T> out{static_cast<T*>(args.y),
                                static_cast<T*>(args.normalized),
                                nullptr,
                                static_cast<S*>(args.rstd),
                                static_cast<const S*>(args.weight),
                                static_cast<const S*>(args.bias),
                                args.tokens,
                                args.columns,
                                static_cast<S>(args.eps),
                                args.dropout};
    normalize_rows("embedding_sum_layer_norm", device, source, out,
                   aligned16(args.table[0], args.table[1], args.table[2]));
  });
}

}  // namespace

void register_embedding() {
  embedding_kernel.set(DeviceType::cuda, embedding);
  embedding_backward_kernel.set(DeviceType::cuda, embedding_backward);
  embedding_sum_layer_norm_kernel.set(DeviceType::cuda, embedding_sum_layer_norm);
}

}  // namespace ringlet::cuda
