// The forward part of every LayerNorm: a row of z comes from a Source, and the results are
//   n = (z - mean) rstd,  y = dropout(weight n + bias).
// A warp holds a row of up to kWarpColumns columns in registers. A block reads longer rows again
// for every pass, and those in f64, which only checks gradients.
//
// A Source has `template <bool kVector> load(row, columns, first, z)`: z[k][i] becomes column
// first + k kWarp V + i of the row, 0 beyond its end.
#pragma once

#include "ringlet/cuda/row_dropout.h"
#include "ringlet/cuda/rows.cuh"

namespace ringlet::cuda {

template <class T, class S = compute_t<T>>
struct NormalizedRows {
  T* y;             // (R, C)
  T* normalized;    // (R, C), may be null
  S* mean;          // (R), may be null
  S* rstd;          // (R)
  const S* weight;  // (C)
  const S* bias;    // (C)
  std::int64_t rows;
  std::int64_t columns;
  S eps;
  RowDropout dropout;  // of y
};

/// Columns per pass over longer rows; no 16-byte accesses.
inline constexpr int kLongRun = 4;

template <class Team, class S>
__device__ __forceinline__ S row_rstd(S squares, std::int64_t columns, S eps) {
  return S{1} / ::sqrt(team_sum<Team>(squares) / static_cast<S>(columns) + eps);
}

template <class S>
__device__ __forceinline__ void write_moments(S* means, S* rstds, std::int64_t row, S mean,
                                              S rstd) {
  if (means) means[row] = mean;
  rstds[row] = rstd;
}

/// Writes y and n of columns [column, column + V); bit i of `kept`: whether dropout keeps the i-th.
template <bool kVector, class T, class S, int V>
__device__ __forceinline__ void write_normalized(const NormalizedRows<T>& out, std::int64_t row,
                                                 std::int64_t column, const S (&z)[V], S mean,
                                                 S rstd, std::uint32_t kept) {
  S n[V], y[V], weight[V], bias[V];
  load_row<kVector>(out.weight, column, out.columns, weight);
  load_row<kVector>(out.bias, column, out.columns, bias);
#pragma unroll
  for (int i = 0; i < V; ++i) {
    n[i] = (z[i] - mean) * rstd;
    y[i] = ::fma(n[i], weight[i], bias[i]);
  }
  if (out.dropout.threshold > 0) drop(y, kept, out.dropout);
  const std::int64_t at = row * out.columns;
  if (out.normalized) store_row<kVector>(out.normalized + at, column, out.columns, n);
  store_row<kVector>(out.y + at, column, out.columns, y);
}

template <class T, int kPerLane, bool kVector, class Source>
__global__ void __launch_bounds__(kThreads, 2)
    normalize_in_registers(Source source, NormalizedRows<T> out) {
  using S = compute_t<T>;
  constexpr int V = kPack<T>, kChunks = kPerLane / V;
  const int lane = team_lane<WarpTeam>();
  for_team_rows<WarpTeam>(out.rows, [&](std::int64_t row) {
    S z[kChunks][V];
    source.template load<kVector>(row, out.columns, lane * V, z);
    S total = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < kChunks; ++k)
#pragma unroll
      for (int i = 0; i < V; ++i) total += z[k][i];
    const S mean = team_sum<WarpTeam>(total) / static_cast<S>(out.columns);
#pragma unroll
    for (int k = 0; k < kChunks; ++k)
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const S d = z[k][i] - mean;
        if ((k * kWarp + lane) * V + i < out.columns) squares = ::fma(d, d, squares);
      }
    const S rstd = row_rstd<WarpTeam>(squares, out.columns, out.eps);
    if (lane == 0) write_moments(out.mean, out.rstd, row, mean, rstd);
    const std::uint32_t kept =
        out.dropout.threshold > 0
            ? kept_runs<kChunks, V>(out.dropout, row, lane * V, std::int64_t{kWarp} * V)
            : 0;
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const std::int64_t column = (k * kWarp + lane) * V;
      if (column < out.columns)
        write_normalized<kVector>(out, row, column, z[k], mean, rstd, kept >> k * V);
    }
  });
}

template <class T, class Source>
__global__ void __launch_bounds__(kThreads)
    normalize_long_rows(Source source, NormalizedRows<T> out) {
  using S = compute_t<T>;
  const std::int64_t first = std::int64_t{team_lane<BlockTeam>()} * kLongRun;
  constexpr std::int64_t kStep = kThreads * kLongRun;
  for_team_rows<BlockTeam>(out.rows, [&](std::int64_t row) {
    S z[1][kLongRun];
    S total = 0, squares = 0;
    for (std::int64_t column = first; column < out.columns; column += kStep) {
      source.template load<false>(row, out.columns, column, z);
#pragma unroll
      for (int i = 0; i < kLongRun; ++i) total += z[0][i];
    }
    const S mean = team_sum<BlockTeam>(total) / static_cast<S>(out.columns);
    for (std::int64_t column = first; column < out.columns; column += kStep) {
      source.template load<false>(row, out.columns, column, z);
#pragma unroll
      for (int i = 0; i < kLongRun; ++i) {
        const S d = z[0][i] - mean;
        if (column + i < out.columns) squares = ::fma(d, d, squares);
      }
    }
    const S rstd = row_rstd<BlockTeam>(squares, out.columns, out.eps);
    if (first == 0) write_moments(out.mean, out.rstd, row, mean, rstd);
    for (std::int64_t column = first; column < out.columns; column += kStep) {
      source.template load<false>(row, out.columns, column, z);
      const std::uint32_t kept =
          out.dropout.threshold > 0 ? kept_runs<1, kLongRun>(out.dropout, row, column, 0) : 0;
      write_normalized<false>(out, row, column, z[0], mean, rstd, kept);
    }
  });
}

/// `aligned`: the Source's rows, and its other operands, fit packs too.
template <class T, class Source>
void normalize_rows(const char* name, Device device, const Source& source,
                    const NormalizedRows<T>& out, bool aligned) {
  const auto run = [&](void (*kernel)(Source, NormalizedRows<T>), int rows_per_block) {
    launch(name, device, kernel, grid_for(out.rows, rows_per_block), kThreads, 0, source, out);
  };
  if constexpr (!std::is_same_v<T, double>)
    if (out.columns <= kWarpColumns) {
      constexpr int kRows = kThreads / kWarp;
      if (!aligned || !rows_fit_packs<T>(out.columns, out.y, out.normalized, out.weight, out.bias))
        return run(normalize_in_registers<T, kWarpColumns / kWarp, false, Source>, kRows);
      if (out.columns <= 768)
        return run(normalize_in_registers<T, 768 / kWarp, true, Source>, kRows);
      return run(normalize_in_registers<T, kWarpColumns / kWarp, true, Source>, kRows);
    }
  run(normalize_long_rows<T, Source>, 1);
}

}  // namespace ringlet::cuda
