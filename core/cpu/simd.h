// Vectors of 64 bytes for every instruction set: 16 floats or 8 doubles, which the compiler maps to
// one, two or four registers. Lanes and the order of sums are the same on all sets. Tails use the
// same code, padded with zeros: an element's bits never depend on its position. bf16 is loaded to
// and stored from floats.
#pragma once

#if defined(__FMA__)
#include <immintrin.h>
#endif
#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
#endif
#include "ringlet/core/base/dtype.h"

namespace ringlet::cpu::RINGLET_ISA {

// Vector types: 64 bytes for computation, and any number of lanes.

typedef float f32x16 __attribute__((vector_size(64)));
typedef double f64x8 __attribute__((vector_size(64)));
typedef std::int32_t i32x16 __attribute__((vector_size(64)));
typedef std::uint32_t u32x16 __attribute__((vector_size(64)));
typedef std::int64_t i64x8 __attribute__((vector_size(64)));
typedef std::uint16_t u16x16 __attribute__((vector_size(32)));

/// Vectors of any number of lanes.
template <class T, int kLanes>
struct Lanes {
  typedef T Type __attribute__((vector_size(sizeof(T) * kLanes)));
};
template <class T, int kLanes>
using lanes_t = typename Lanes<T, kLanes>::Type;

// The size of a register; a vector of 64 bytes takes several smaller ones.
#if defined(__AVX512F__)
inline constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif

#define RINGLET_INLINE static inline __attribute__((always_inline))

// The types in which a stored element T is computed: a scalar, and a vector of kLanes scalars.
template <class T>
struct Compute {
  using Scalar = float;
  using Vector = f32x16;
  static constexpr int kLanes = 16;
};
template <>
struct Compute<double> {
  using Scalar = double;
  using Vector = f64x8;
  static constexpr int kLanes = 8;
};
template <class T>
using scalar_t = typename Compute<T>::Scalar;
template <class T>
using vector_t = typename Compute<T>::Vector;

RINGLET_INLINE f32x16 splat(float value) { return value - f32x16{}; }
RINGLET_INLINE f64x8 splat(double value) { return value - f64x8{}; }

template <class To, class From>
RINGLET_INLINE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

/// v as bf16 in the low half of each lane, rounded to nearest even.
template <int kLanes>
RINGLET_INLINE lanes_t<std::uint32_t, kLanes> rounded_to_bf16(lanes_t<float, kLanes> v) {
  using U = lanes_t<std::uint32_t, kLanes>;
  const U u = bits_as<U>(v);
  const U rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const U quiet = (u >> 16) | 0x40u;
  return (u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
}

// Loads and stores of vectors, including tails.

template <class T>
RINGLET_INLINE vector_t<T> load(const T* from) {
  vector_t<T> v;
  memcpy(&v, from, sizeof(v));
  return v;
}
RINGLET_INLINE f32x16 widen_bf16(u16x16 half) {
#if defined(__AVX512F__)  // convertvector takes five instructions; unmasked forms warn in g++ 12
  const u32x16 wide = bits_as<u32x16>(_mm512_maskz_cvtepu16_epi32(0xffff, bits_as<__m256i>(half)));
#else
  const u32x16 wide = __builtin_convertvector(half, u32x16);
#endif
  return bits_as<f32x16>(wide << 16);
}
template <>
inline __attribute__((always_inline)) f32x16 load(const bfloat16* from) {
  u16x16 half;
  memcpy(&half, from, sizeof(half));
  return widen_bf16(half);
}

template <class T>
RINGLET_INLINE void store(T* to, vector_t<T> v) {
  memcpy(static_cast<void*>(to), &v, sizeof(v));
}
RINGLET_INLINE u16x16 narrow_to_bf16(f32x16 v) {
  const u32x16 rounded = rounded_to_bf16<16>(v);
#if defined(__AVX512F__)
  return bits_as<u16x16>(_mm512_maskz_cvtepi32_epi16(0xffff, bits_as<__m512i>(rounded)));
#else
  return __builtin_convertvector(rounded, u16x16);
#endif
}
template <>
inline __attribute__((always_inline)) void store(bfloat16* to, f32x16 v) {
  const u16x16 half = narrow_to_bf16(v);
  memcpy(static_cast<void*>(to), &half, sizeof(half));
}

/// The first n < kLanes elements; the other lanes are zero.
template <class T>
RINGLET_INLINE vector_t<T> load(const T* from, std::int64_t n) {
  T buffer[Compute<T>::kLanes];
  memset(static_cast<void*>(buffer), 0, sizeof(buffer));
  memcpy(static_cast<void*>(buffer), from, static_cast<size_t>(n) * sizeof(T));
  return load(buffer);
}
template <class T>
RINGLET_INLINE void store(T* to, vector_t<T> v, std::int64_t n) {
  T buffer[Compute<T>::kLanes];
  store(buffer, v);
  memcpy(static_cast<void*>(to), buffer, static_cast<size_t>(n) * sizeof(T));
}

#if defined(__AVX512F__)
// Masked moves touch nothing beyond n.
RINGLET_INLINE __mmask16 first_lanes(std::int64_t n) {
  return static_cast<__mmask16>((1u << n) - 1);
}
template <>
inline __attribute__((always_inline)) f32x16 load(const float* from, std::int64_t n) {
  return bits_as<f32x16>(_mm512_maskz_loadu_ps(first_lanes(n), from));
}
template <>
inline __attribute__((always_inline)) f64x8 load(const double* from, std::int64_t n) {
  return bits_as<f64x8>(_mm512_maskz_loadu_pd(static_cast<__mmask8>(first_lanes(n)), from));
}
template <>
inline __attribute__((always_inline)) f32x16 load(const bfloat16* from, std::int64_t n) {
  return widen_bf16(bits_as<u16x16>(_mm256_maskz_loadu_epi16(first_lanes(n), from)));
}
template <>
inline __attribute__((always_inline)) void store(float* to, f32x16 v, std::int64_t n) {
  _mm512_mask_storeu_ps(to, first_lanes(n), bits_as<__m512>(v));
}
template <>
inline __attribute__((always_inline)) void store(double* to, f64x8 v, std::int64_t n) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>(first_lanes(n)), bits_as<__m512d>(v));
}
template <>
inline __attribute__((always_inline)) void store(bfloat16* to, f32x16 v, std::int64_t n) {
  _mm256_mask_storeu_epi16(to, first_lanes(n), bits_as<__m256i>(narrow_to_bf16(v)));
}
#endif

/// Calls body(i, count) with i = 0, kLanes, …; count is kLanes except in the tail. The body passes
/// it to load_at and store_at.
template <class T, class Body>
RINGLET_INLINE void for_vectors(std::int64_t n, Body body) {
  constexpr std::int64_t kLanes = Compute<T>::kLanes;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, n - i);
}
template <class T>
RINGLET_INLINE vector_t<T> load_at(const T* from, std::int64_t i, std::int64_t count) {
  return count == Compute<T>::kLanes ? load(from + i) : load(from + i, count);
}
template <class T>
RINGLET_INLINE void store_at(T* to, std::int64_t i, std::int64_t count, vector_t<T> v) {
  if (count == Compute<T>::kLanes) {
    store(to + i, v);
  } else {
    store(to + i, v, count);
  }
}

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
