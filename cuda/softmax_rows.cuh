// The row statistics of softmax and cross-entropy: the maximum and the sum of exponentials above
// it.
#pragma once

#include "ringlet/cuda/rows.cuh"

namespace ringlet::cuda {

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
  for_columns<Team>(columns,
                    [&](std::int64_t c) { total += exponential(to_compute(x[c]) - shift); });
  return team_sum<Team>(total);
}

}  // namespace ringlet::cuda
