// Rows of a matrix in device code: runs of columns of any alignment, and the threads of a row.
#pragma once

#include "ringlet/cuda/reduce.cuh"
#include "ringlet/cuda/types.cuh"

namespace ringlet::cuda {

/// Loads columns [column, column + kCount) of a row, zeros beyond its end. kVector: 16 bytes at a
/// time, for aligned rows. Then the length and `column` are multiples of kCount.
template <bool kVector, class T, int kCount>
__device__ __forceinline__ void load_row(const T* row, std::int64_t column, std::int64_t columns,
                                         compute_t<T> (&to)[kCount]) {
  if constexpr (kVector) {
    if (column < columns) {
      load_run(row + column, to);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) to[i] = 0;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      to[i] = column + i < columns ? to_compute(row[column + i]) : compute_t<T>{0};
  }
}

/// The reverse; writes nothing beyond the row's end.
template <bool kVector, class T, int kCount>
__device__ __forceinline__ void store_row(T* row, std::int64_t column, std::int64_t columns,
                                          const compute_t<T> (&from)[kCount]) {
  if constexpr (kVector) {
    if (column < columns) store_run(row + column, from);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (column + i < columns) row[column + i] = from_compute<T>(from[i]);
  }
}

/// Whether rows of `columns` elements T at these addresses, and the other operands at them, allow
/// accesses of kPack<T> columns.
template <class T, class... Pointers>
bool rows_fit_packs(std::int64_t columns, const Pointers*... pointers) {
  return columns % kPack<T> == 0 && aligned16(pointers...);
}

// ---- the threads of a row -----------------------------------------------------------------

struct WarpTeam {
  static constexpr int kSize = kWarp;
  template <class Combine, class S>
  static __device__ __forceinline__ S reduce(S value) {
    return warp_reduce<Combine>(value);
  }
};

/// A block of kThreads; all its threads take part in every reduction.
struct BlockTeam {
  static constexpr int kSize = kThreads;
  template <class Combine, class S>
  static __device__ __forceinline__ S reduce(S value) {
    __shared__ S parts[kWarp];
    return block_reduce<Combine>(value, parts);
  }
};

template <class Team>
__device__ __forceinline__ int team_lane() {
  return static_cast<int>(threadIdx.x) % Team::kSize;
}
template <class Team, class S>
__device__ __forceinline__ S team_sum(S value) {
  return Team::template reduce<Sum>(value);
}
template <class Team, class S>
__device__ __forceinline__ S team_max(S value) {
  return Team::template reduce<Max>(value);
}

/// body(row) by each team, sequentially, in blocks of kThreads; a team's threads stay together.
template <class Team, class Body>
__device__ __forceinline__ void for_team_rows(std::int64_t rows, Body&& body) {
  constexpr int kTeams = kThreads / Team::kSize;
  const std::int64_t step = std::int64_t{gridDim.x} * kTeams;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kTeams + threadIdx.x / Team::kSize; row < rows;
       row += step)
    body(row);
}

/// Rows longer than this take a block each.
inline constexpr std::int64_t kWarpColumns = 1024;

/// Launches one of two kernels over rows: one warp, or one block, per row.
template <class Args>
void launch_rows(const char* name, Device device, void (*by_warps)(Args), void (*by_blocks)(Args),
                 std::int64_t rows, std::int64_t columns, const Args& args) {
  if (columns <= kWarpColumns)
    launch(name, device, by_warps, grid_for(rows, kThreads / kWarp), kThreads, 0, args);
  else
    launch(name, device, by_blocks, grid_for(rows, 1), kThreads, 0, args);
}

// The row statistics of softmax and cross-entropy: the maximum and the sum of exponentials above
// it.

/// body(column) for this thread's columns of the team's row.
template <class Team, class Body>
__device__ __forceinline__ void for_columns(std::int64_t columns, Body&& body) {
  for (std::int64_t c = team_lane<Team>(); c < columns; c += Team::kSize) body(c);
}

/// NaN is ignored; then the sum is NaN.
template <class Team, class T>
__device__ __forceinline__ compute_t<T> row_max(const T* x, std::int64_t columns) {
  compute_t<T> best = -INFINITY;
  for_columns<Team>(columns, [&](std::int64_t c) {
    const compute_t<T> value = to_compute(x[c]);
    best = value > best ? value : best;
  });
  return team_max<Team>(best);
}

/// The sum of exp(x - shift).
template <class Team, class T>
__device__ __forceinline__ compute_t<T> row_exp_sum(const T* x, std::int64_t columns,
                                                    compute_t<T> shift) {
  compute_t<T> total = 0;
  for_columns<Team>(columns, [&](std::int64_t c) { total += ::exp(to_compute(x[c]) - shift); });
  return team_sum<Team>(total);
}

}  // namespace ringlet::cuda
