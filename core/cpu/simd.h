// Vectors of 64 bytes for every instruction set: 16 floats or 8 doubles, which the compiler maps
// to one, two or four registers. Lanes and the order of sums are the same on all of them, so an
// element's bits never depend on its position: tails run through the same code, padded with zeros.
// bf16 is loaded to and stored from floats.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif
#include <math.h>
#include <string.h>

#include "ringlet/core/dtype.h"

namespace ringlet::cpu::RINGLET_ISA {

typedef float f32x16 __attribute__((vector_size(64)));
typedef double f64x8 __attribute__((vector_size(64)));
typedef std::int32_t i32x16 __attribute__((vector_size(64)));
typedef std::uint32_t u32x16 __attribute__((vector_size(64)));
typedef std::int64_t i64x8 __attribute__((vector_size(64)));
typedef std::uint16_t u16x16 __attribute__((vector_size(32)));

// Of the processor's registers; a vector of 64 takes several where they are narrower.
#if defined(__AVX512F__)
inline constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif

#define RINGLET_INLINE static inline __attribute__((always_inline))

// What a stored element T computes in: a scalar, and a vector of kLanes of them.
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

// ---- loads and stores ---------------------------------------------------------------------

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
RINGLET_INLINE u16x16 round_to_bf16(f32x16 v) {
  const u32x16 u = bits_as<u32x16>(v);
  const u32x16 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const u32x16 quiet = (u >> 16) | 0x40u;
  const auto nan = (u & 0x7fffffffu) > 0x7f800000u;
#if defined(__AVX512F__)
  const __m512i chosen = bits_as<__m512i>(nan ? quiet : rounded);
  return bits_as<u16x16>(_mm512_maskz_cvtepi32_epi16(0xffff, chosen));
#else
  return __builtin_convertvector(nan ? quiet : rounded, u16x16);
#endif
}
template <>
inline __attribute__((always_inline)) void store(bfloat16* to, f32x16 v) {
  const u16x16 half = round_to_bf16(v);
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
  _mm256_mask_storeu_epi16(to, first_lanes(n), bits_as<__m256i>(round_to_bf16(v)));
}
#endif

/// Calls body(i, count) with i = 0, kLanes, …; count is kLanes but for the tail. Inside, use
/// load_at and store_at, which take it.
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

// ---- arithmetic ---------------------------------------------------------------------------

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

/// a * b + c, rounded once where the processor can, twice on the portable path.
template <class V>
RINGLET_INLINE V fma(V a, V b, V c) {
#if defined(__FMA__) && defined(__clang__)  // which keeps lanes in memory where it is to watch them
#pragma clang fp contract(on)
  return a * b + c;
#elif defined(__FMA__)
#if defined(__AVX512F__)  // g++ does not put the lanes together again everywhere
  if constexpr (sizeof(V) == 64 && sizeof(a[0]) == 4)
    return bits_as<V>(_mm512_fmadd_ps(bits_as<__m512>(a), bits_as<__m512>(b), bits_as<__m512>(c)));
#endif
  V r;
  for (unsigned i = 0; i < sizeof(V) / sizeof(a[0]); ++i)
    if constexpr (sizeof(a[0]) == 4) {
      r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    } else {
      r[i] = __builtin_fma(a[i], b[i], c[i]);
    }
  return r;
#else
  return a * b + c;
#endif
}

RINGLET_INLINE f32x16 sqrt(f32x16 a) {
  f32x16 r;
  for (int i = 0; i < 16; ++i) r[i] = __builtin_sqrtf(a[i]);
  return r;
}
RINGLET_INLINE f64x8 sqrt(f64x8 a) {
  f64x8 r;
  for (int i = 0; i < 8; ++i) r[i] = __builtin_sqrt(a[i]);
  return r;
}

typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef double f64x4 __attribute__((vector_size(32)));

/// Folds all lanes into one, halves with halves: f(lane i, lane i + 8), then 4, 2, 1 apart.
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

/// Lanes [0, count) of v and those of `other` beyond.
RINGLET_INLINE f32x16 first_lanes(f32x16 v, std::int64_t count, f32x16 other) {
  const i32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < static_cast<std::int32_t>(count) ? v : other;
}
RINGLET_INLINE f64x8 first_lanes(f64x8 v, std::int64_t count, f64x8 other) {
  const i64x8 lane = {0, 1, 2, 3, 4, 5, 6, 7};
  return lane < count ? v : other;
}

}  // namespace ringlet::cpu::RINGLET_ISA
