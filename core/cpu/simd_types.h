// Vector types: 64 bytes for computation, and any number of lanes.
#pragma once

#include <string.h>

#include "ringlet/core/base/dtype.h"

namespace ringlet::cpu::RINGLET_ISA {

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

}  // namespace ringlet::cpu::RINGLET_ISA
