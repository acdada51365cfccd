// Loads and stores of vectors, including tails.
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "ringlet/core/cpu/simd_types.h"

namespace ringlet::cpu::RINGLET_ISA {

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

}  // namespace ringlet::cpu::RINGLET_ISA
