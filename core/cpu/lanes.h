// Vectors of any number of lanes, for kernels that depend on the processor's register size. The
// remaining kernels use the 64 bytes of simd.h.
#pragma once

#include <utility>

#include "ringlet/core/cpu/simd.h"

namespace ringlet::cpu::RINGLET_ISA {

template <class V, class T>
RINGLET_INLINE V load_lanes(const T* from) {
  V v;
  memcpy(&v, from, sizeof(v));
  return v;
}

template <class V, class T>
RINGLET_INLINE void store_lanes(T* to, V v) {
  memcpy(static_cast<void*>(to), &v, sizeof(v));
}

/// The first `count` of kLanes elements; the other lanes are zero.
template <class T, int kLanes>
RINGLET_INLINE lanes_t<T, kLanes> load_lanes(const T* from, std::int64_t count) {
  if (count >= kLanes) return load_lanes<lanes_t<T, kLanes>>(from);
  lanes_t<T, kLanes> v{};
  for (int i = 0; i < kLanes; ++i)
    if (i < count) v[i] = from[i];
  return v;
}

// Exchanges the off-diagonal blocks of kStep x kStep between rows a and b, which are kStep apart.
template <int kStep, class V, int... kLane>
RINGLET_INLINE void swap_blocks(V& a, V& b, std::integer_sequence<int, kLane...>) {
  constexpr int kLanes = sizeof...(kLane);
  const V low =
      __builtin_shufflevector(a, b, ((kLane & kStep) ? kLanes + kLane - kStep : kLane)...);
  const V high =
      __builtin_shufflevector(a, b, ((kLane & kStep) ? kLanes + kLane : kLane + kStep)...);
  a = low;
  b = high;
}

/// Transposes a square of kLanes rows.
template <int kLanes, int kStep = kLanes / 2, class V>
RINGLET_INLINE void transpose_lanes(V* rows) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if (!(i & kStep))
      swap_blocks<kStep>(rows[i], rows[i + kStep], std::make_integer_sequence<int, kLanes>());
  if constexpr (kStep > 1) transpose_lanes<kLanes, kStep / 2>(rows);
}

}  // namespace ringlet::cpu::RINGLET_ISA
