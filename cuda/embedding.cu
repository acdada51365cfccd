#include "ringlet/core/ops/embedding.h"

#include <algorithm>

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/bad_input.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/normalize_rows.cuh"
#include "ringlet/cuda/rows.cuh"
#include "ringlet/cuda/sorted_runs.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {

// The gradient of an embedding table without atomics. Tokens are sorted by id, and the warp or
// block at an id's first token adds the rows of all of its tokens.

template <class T, class S = compute_t<T>>
struct EmbeddingRuns {
  S* grad_weight;              // (V, C)
  const T* grad;               // (T, C)
  const std::uint32_t* keys;   // (T) ascending ids; V for those of no row
  const std::int32_t* tokens;  // (T) token of each key
  std::int64_t count;          // T
  std::int64_t rows;           // V
  std::int64_t columns;
  bool keep;  // adds to what grad_weight holds
};

/// One warp per place that may begin a run shorter than kLongEmbeddingRun; sums in token order.
template <class T, bool kVector>
__global__ void __launch_bounds__(kThreads) embedding_short_runs(EmbeddingRuns<T> runs) {
  using S = compute_t<T>;
  constexpr int V = kPack<T>;
  const int lane = team_lane<WarpTeam>();
  for_team_rows<WarpTeam>(runs.count, [&](std::int64_t place) {
    if (!begins_run(runs.keys, place, runs.rows) || is_long_run(runs.keys, place, runs.count))
      return;
    const std::uint32_t id = runs.keys[place];
    const bool same = place + lane < runs.count && runs.keys[place + lane] == id;
    const int count = __popc(__ballot_sync(kAllLanes, same));
    const std::int32_t token = same ? runs.tokens[place + lane] : 0;
    S* const out = runs.grad_weight + id * runs.columns;
    for (std::int64_t base = 0; base < runs.columns; base += kWarp * V) {
      const std::int64_t column = base + lane * V;
      S total[V] = {}, value[V];
#pragma unroll 4
      for (int k = 0; k < count; ++k) {
        const std::int64_t row = __shfl_sync(kAllLanes, token, k);
        load_row<kVector>(runs.grad + row * runs.columns, column, runs.columns, value);
#pragma unroll
        for (int i = 0; i < V; ++i) total[i] += value[i];
      }
      if (runs.keep) {
        load_row<kVector>(out, column, runs.columns, value);
#pragma unroll
        for (int i = 0; i < V; ++i) total[i] += value[i];
      }
      store_row<kVector>(out, column, runs.columns, total);
    }
  });
}

/// A block searches kLongEmbeddingRun places, of which at most one begins a long run. It sums kWarp
/// columns of the run: each of the kRunRows rows of threads takes every kRunRows-th token, and
/// their sums are added in order.
inline constexpr int kRunRows = 16;
inline constexpr int kRunThreads = kWarp * kRunRows;

template <class T>
__global__ void __launch_bounds__(kRunThreads) embedding_long_runs(EmbeddingRuns<T> runs) {
  using S = compute_t<T>;
  static_assert(kLongEmbeddingRun == kWarp);
  __shared__ S sums[kRunRows][kWarp];
  const int lane = static_cast<int>(threadIdx.x), part = static_cast<int>(threadIdx.y);
  const std::int64_t first = std::int64_t{blockIdx.x} * kLongEmbeddingRun, place = first + lane;
  const bool begins = place < runs.count && begins_run(runs.keys, place, runs.rows) &&
                      is_long_run(runs.keys, place, runs.count);
  const unsigned found = __ballot_sync(kAllLanes, begins);  // the same in all warps
  if (found == 0) return;
  const std::int64_t begin = first + __ffs(static_cast<int>(found)) - 1;
  const std::int64_t end = end_of_run(runs.keys, begin, runs.count);

  const std::int64_t column = std::int64_t{blockIdx.y} * kWarp + lane;
  S total = 0;
  if (column < runs.columns) {
#pragma unroll 8
    for (std::int64_t k = begin + part; k < end; k += kRunRows)
      total += to_compute(runs.grad[runs.tokens[k] * runs.columns + column]);
  }
  sums[part][lane] = total;
  __syncthreads();
  if (part > 0 || column >= runs.columns) return;
  for (int other = 1; other < kRunRows; ++other) total += sums[other][lane];
  S* const out = runs.grad_weight + runs.keys[begin] * runs.columns + column;
  *out = runs.keep ? total + *out : total;
}

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

template <class T>
void embedding(const EmbeddingArgs& args, Device device) {
  const bool vector = rows_fit_packs<T>(args.columns, args.out, args.weight);
  launch("embedding", device, vector ? embedding_rows<T, true> : embedding_rows<T, false>,
         grid_for(args.tokens, kThreads / kWarp), kThreads, 0, args, BadInputReport(device));
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

template <class T>
void embedding_backward(const EmbeddingBackwardArgs& args, Device device) {
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
  const Workspace memory(device, 3 * static_cast<std::size_t>(args.tokens) * sizeof(std::int32_t));
  auto* const keys = memory.as<std::uint32_t>();
  auto* const sorted = keys + args.tokens;
  auto* const tokens = memory.as<std::int32_t>() + 2 * args.tokens;
  launch("embedding_backward", device, embedding_keys, grid_for(args.tokens), kThreads, 0, args.ids,
         keys, tokens, args.tokens, rows, args.padding);
  sort_pairs(device, keys, sorted, tokens, args.next, args.tokens, key_bits(rows));
  add_runs(EmbeddingRuns<T>{static_cast<S*>(args.grad_weight), static_cast<const T*>(args.grad),
                            sorted, args.next, args.tokens, rows, args.columns, args.beta != 0},
           device);
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

template <class T>
void embedding_sum_layer_norm(const EmbeddingSumArgs& args, Device device) {
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
}

}  // namespace

void register_embedding() {
  RINGLET_SET_FLOATING(cuda, embedding);
  RINGLET_SET_FLOATING(cuda, embedding_backward);
  RINGLET_SET_FLOATING(cuda, embedding_sum_layer_norm);
}

}  // namespace ringlet::cuda
