// Inner products of rows: four vectors of partial sums, folded in a fixed order.
#pragma once

#include "ringlet/core/cpu/simd.h"

namespace ringlet::cpu::RINGLET_ISA {

template <class T>
RINGLET_INLINE scalar_t<T> dot(const T* a, const T* b, std::int64_t n) {
  constexpr int kLanes = Compute<T>::kLanes;
  vector_t<T> total[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k)
      total[k] = fma(load(a + i + k * kLanes), load(b + i + k * kLanes), total[k]);
  for (; i < n; i += kLanes) {
    const std::int64_t lanes = n - i < kLanes ? n - i : kLanes;
    total[0] = fma(load_at(a, i, lanes), load_at(b, i, lanes), total[0]);
  }
  return sum((total[0] + total[1]) + (total[2] + total[3]));
}

RINGLET_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
RINGLET_INLINE double square_root(double x) { return __builtin_sqrt(x); }

}  // namespace ringlet::cpu::RINGLET_ISA
