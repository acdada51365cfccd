// Sums of terms of a row: four vectors of partial sums, folded in a fixed order.
#pragma once

#include "ringlet/core/cpu/simd.h"

namespace ringlet::cpu::RINGLET_ISA {

/// add(total, i, lanes) gives `total` plus the terms of elements [i, i + lanes).
template <class T, class Add>
RINGLET_INLINE scalar_t<T> sum_terms(std::int64_t n, Add add) {
  constexpr std::int64_t kLanes = Compute<T>::kLanes;
  vector_t<T> total[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) total[k] = add(total[k], i + k * kLanes, kLanes);
  for (; i < n; i += kLanes) total[0] = add(total[0], i, n - i < kLanes ? n - i : kLanes);
  return sum((total[0] + total[1]) + (total[2] + total[3]));
}

/// The inner product of two rows.
template <class T>
RINGLET_INLINE scalar_t<T> dot(const T* a, const T* b, std::int64_t n) {
  return sum_terms<T>(
      n, [&](vector_t<T> total, std::int64_t i, std::int64_t lanes) __attribute__((always_inline)) {
        return fma(load_at(a, i, lanes), load_at(b, i, lanes), total);
      });
}

}  // namespace ringlet::cpu::RINGLET_ISA
