// One row of a layer normalisation, for kernels that fuse it with other ops.
#pragma once

#include "ringlet/core/cpu/dropout.h"
#include "ringlet/core/ops/layer_norm.h"

namespace ringlet::cpu::RINGLET_ISA {

/// Null if there is no tensor.
template <class T>
static inline const T* row_of(const void* base, std::int64_t row, std::int64_t columns) {
  return base ? static_cast<const T*>(base) + row * columns : nullptr;
}
template <class T>
static inline T* row_of(void* base, std::int64_t row, std::int64_t columns) {
  return base ? static_cast<T*>(base) + row * columns : nullptr;
}

template <class S>
struct RowMoments {
  S mean;
  S rstd;
};

/// Moments of z[0, columns): first the mean, then the mean square of the differences from it.
template <class S>
RINGLET_INLINE RowMoments<S> row_moments(const S* z, std::int64_t columns, double eps) {
  constexpr int kLanes = Compute<S>::kLanes;
  vector_t<S> total[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= columns; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) total[k] += load(z + i + k * kLanes);
  for (; i < columns; i += kLanes)
    total[0] += load_at(z, i, columns - i < kLanes ? columns - i : kLanes);
  const S count = static_cast<S>(columns);
  const S mean = sum((total[0] + total[1]) + (total[2] + total[3])) / count;

  vector_t<S> square[4] = {};
  for (i = 0; i + 4 * kLanes <= columns; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const vector_t<S> d = load(z + i + k * kLanes) - mean;
      square[k] = fma(d, d, square[k]);
    }
  for (; i < columns; i += kLanes) {
    const std::int64_t lanes = columns - i < kLanes ? columns - i : kLanes;
    const vector_t<S> d = first_lanes(load_at(z, i, lanes) - mean, lanes, vector_t<S>{});
    square[0] = fma(d, d, square[0]);
  }
  const S variance = sum((square[0] + square[1]) + (square[2] + square[3])) / count;
  S rstd;
  if constexpr (sizeof(S) == 4) {
    rstd = 1 / __builtin_sqrtf(variance + static_cast<S>(eps));
  } else {
    rstd = 1 / __builtin_sqrt(variance + eps);
  }
  return {mean, rstd};
}

/// y = drop(weight n + bias), n = (z - mean) rstd. `normalized` may be null; without dropout
/// `words` is null.
template <class T, class S = scalar_t<T>>
RINGLET_INLINE void normalize_row(T* y, T* normalized, const S* z, RowMoments<S> moments,
                                  const S* weight, const S* bias, const std::uint32_t* words,
                                  const Dropout& dropout, std::int64_t columns) {
  for_vectors<T>(
      columns, [&](std::int64_t i, std::int64_t lanes) __attribute__((always_inline)) {
        const vector_t<S> n = (load_at(z, i, lanes) - moments.mean) * moments.rstd;
        vector_t<S> out = fma(n, load_at(weight, i, lanes), load_at(bias, i, lanes));
        if (words) out = drop(out, words + i, dropout);
        if (normalized) store_at(normalized, i, lanes, n);
        store_at(y, i, lanes, out);
      });
}

}  // namespace ringlet::cpu::RINGLET_ISA
