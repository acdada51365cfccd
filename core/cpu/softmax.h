// The maximum of a row and its sum of exponentials, for softmax and cross-entropy.
#pragma once

#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/cpu/simd_math.h"

namespace ringlet::cpu::RINGLET_ISA {

inline constexpr std::int64_t kExpGrain = kGrain / 4;

template <class T>
RINGLET_INLINE scalar_t<T> row_max(const T* x, std::int64_t columns) {
  const auto lowest = splat(-static_cast<scalar_t<T>>(INFINITY));
  auto best = lowest;
  for_vectors<T>(columns, [&](std::int64_t i, std::int64_t count) {
    best = max(first_lanes(load_at(x, i, count), count, lowest), best);
  });
  return max_lane(best);
}

/// The sum of exp(x - shift); `terms`, unless null, receives each term.
template <class T>
RINGLET_INLINE scalar_t<T> row_exp_sum(const T* x, std::int64_t columns, scalar_t<T> shift,
                                       scalar_t<T>* terms = nullptr) {
  vector_t<T> total{};
  for_vectors<T>(columns, [&](std::int64_t i, std::int64_t count) {
    const auto term = exp(load_at(x, i, count) - shift);
    if (terms) store_at(terms, i, count, term);
    total += first_lanes(term, count, vector_t<T>{});
  });
  return sum(total);
}

template <class S>
RINGLET_INLINE S scalar_log(S x) {
  return static_cast<S>(::log(static_cast<double>(x)));
}

}  // namespace ringlet::cpu::RINGLET_ISA
