// Vectors of 64 bytes for every instruction set: 16 floats or 8 doubles, which the compiler maps to
// one, two or four registers. Lanes and the order of sums are the same on all sets. Tails use the
// same code, padded with zeros: an element's bits never depend on its position. bf16 is loaded to
// and stored from floats.
#pragma once

#if defined(__FMA__)
#include <immintrin.h>
#endif
#include <math.h>

#include "ringlet/core/cpu/simd_memory.h"
#include "ringlet/core/cpu/simd_types.h"

namespace ringlet::cpu::RINGLET_ISA {

template <class V>
RINGLET_INLINE V max(V a, V b) {
  return a > b ? a : b;
}
template <class V>
RINGLET_INLINE V min(V a, V b) {
  return a < b ? a : b;
}
RINGLET_INLINE f32x16 abs(f32x16 a) { return bits_as<f32x16>(bits_as<u32x16>(a) & 0x7fffffffu); }
RINGLET_INLINE f64x8 abs(f64x8 a) { return bits_as<f64x8>(bits_as<i64x8>(a) & INT64_MAX); }

/// a * b + c, rounded once on processors with FMA, twice on the portable path. Vectors of one
/// register have an instruction: g++ does not always recombine the lanes of the loop, and clang's
/// spills if sanitized.
template <class V>
RINGLET_INLINE V fma(V a, V b, V c) {
#if defined(__FMA__) && !defined(__clang__)
  constexpr bool kFloats = sizeof(a[0]) == 4;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && kFloats)
    return bits_as<V>(_mm512_fmadd_ps(bits_as<__m512>(a), bits_as<__m512>(b), bits_as<__m512>(c)));
  if constexpr (sizeof(V) == 64 && !kFloats)
    return bits_as<V>(
        _mm512_fmadd_pd(bits_as<__m512d>(a), bits_as<__m512d>(b), bits_as<__m512d>(c)));
#endif
  if constexpr (sizeof(V) == 32 && kFloats)
    return bits_as<V>(_mm256_fmadd_ps(bits_as<__m256>(a), bits_as<__m256>(b), bits_as<__m256>(c)));
  if constexpr (sizeof(V) == 32 && !kFloats)
    return bits_as<V>(
        _mm256_fmadd_pd(bits_as<__m256d>(a), bits_as<__m256d>(b), bits_as<__m256d>(c)));
  V r;
  for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i)
    if constexpr (kFloats) {
      r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    } else {
      r[i] = __builtin_fma(a[i], b[i], c[i]);
    }
  return r;
#else
#if defined(__FMA__)
#pragma clang fp contract(on)
#endif
  return a * b + c;
#endif
}

RINGLET_INLINE float square_root(float x) { return __builtin_sqrtf(x); }
RINGLET_INLINE double square_root(double x) { return __builtin_sqrt(x); }
template <class V>
RINGLET_INLINE V sqrt(V a) {
  V r;
  for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i) r[i] = square_root(a[i]);
  return r;
}

typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef double f64x4 __attribute__((vector_size(32)));

/// Folds all lanes into one by halves: f(lane i, lane i + 8), then 4, 2, 1 apart.
template <class F>
RINGLET_INLINE float fold(f32x16 v, F f) {
  const f32x8 a = f(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                    __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  const f32x4 b =
      f(__builtin_shufflevector(a, a, 0, 1, 2, 3), __builtin_shufflevector(a, a, 4, 5, 6, 7));
  return f(f(b[0], b[2]), f(b[1], b[3]));
}
template <class F>
RINGLET_INLINE double fold(f64x8 v, F f) {
  const f64x4 a =
      f(__builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7));
  return f(f(a[0], a[2]), f(a[1], a[3]));
}
template <class V>
RINGLET_INLINE auto sum(V v) {
  return fold(
      v, [](auto a, auto b) __attribute__((always_inline)) { return a + b; });
}
template <class V>
RINGLET_INLINE auto max_lane(V v) {
  return fold(
      v, [](auto a, auto b) __attribute__((always_inline)) { return a > b ? a : b; });
}

/// Lanes [0, count) of v, then those of `other`.
RINGLET_INLINE f32x16 first_lanes(f32x16 v, std::int64_t count, f32x16 other) {
  const i32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < static_cast<std::int32_t>(count) ? v : other;
}
RINGLET_INLINE f64x8 first_lanes(f64x8 v, std::int64_t count, f64x8 other) {
  const i64x8 lane = {0, 1, 2, 3, 4, 5, 6, 7};
  return lane < count ? v : other;
}

}  // namespace ringlet::cpu::RINGLET_ISA
