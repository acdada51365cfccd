// One row of a layer normalisation, for kernels that fuse it with other ops.
#pragma once

#include "ringlet/core/cpu/dot.h"
#include "ringlet/core/cpu/dropout.h"
#include "ringlet/core/ops/layer_norm.h"

namespace ringlet::cpu::RINGLET_ISA {

template <class S>
struct RowMoments {
  S mean;
  S rstd;
};

/// Moments of z[0, columns): first the mean, then the mean square of the differences from it.
template <class S>
RINGLET_INLINE RowMoments<S> row_moments(const S* z, std::int64_t columns, double eps) {
  const auto add = [&](vector_t<S> total, std::int64_t i, std::int64_t lanes)
      __attribute__((always_inline)) {
    return total + load_at(z, i, lanes);
  };
  const S count = static_cast<S>(columns), mean = sum_terms<S>(columns, add) / count;
  const auto add_square = [&](vector_t<S> total, std::int64_t i, std::int64_t lanes)
      __attribute__((always_inline)) {
    vector_t<S> d = load_at(z, i, lanes) - mean;
    if (lanes < Compute<S>::kLanes) d = first_lanes(d, lanes, vector_t<S>{});
    return fma(d, d, total);
  };
  const S variance = sum_terms<S>(columns, add_square) / count;
  return {mean, 1 / square_root(variance + static_cast<S>(eps))};
}

/// y = drop(weight n + bias), n = (z - mean) rstd. `normalized` may be null; without dropout
/// `words` is null.
template <class T, class S = scalar_t<T>>
RINGLET_INLINE void normalize_row(T* y, T* normalized, const S* z, RowMoments<S> moments,
                                  const S* weight, const S* bias, const std::uint32_t* words,
                                  const DropoutMask& dropout, std::int64_t columns) {
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
