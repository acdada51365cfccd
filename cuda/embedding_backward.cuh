// The gradient of an embedding table without atomics. Tokens are sorted by id, and the warp or
// block at an id's first token adds the rows of all of its tokens.
#pragma once

#include "ringlet/core/ops/embedding.h"
#include "ringlet/cuda/embedding_runs.h"
#include "ringlet/cuda/rows.cuh"

namespace ringlet::cuda {

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

}  // namespace ringlet::cuda
