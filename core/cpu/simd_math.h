// exp, log, erf, tanh on vectors. Floats use polynomials (error bounds at each function, in units
// of the last place, checked by tests/core/simd_math.cpp); doubles call the C library lane by lane.
#pragma once

#include "ringlet/core/cpu/simd.h"

namespace ringlet::cpu::RINGLET_ISA {

/// e^x, within 2 ulp; 0 below -87.3 and infinity above 88.7 (no denormal results).
RINGLET_INLINE f32x16 exp(f32x16 x) {
  const f32x16 lowest = splat(-87.33654f), highest = splat(88.72284f);
  const f32x16 clamped = min(max(x, lowest), highest);
  // x = k ln 2 + r with |r| <= ln 2 / 2; adding 1.5 * 2^23 rounds to the nearest integer.
  const f32x16 magic = splat(12582912.0f);
  const f32x16 shifted = fma(clamped, splat(1.44269504f), magic);
  const f32x16 k = shifted - magic;
  f32x16 r = fma(k, splat(-0.693359375f), clamped);
  r = fma(k, splat(2.12194440e-4f), r);
  f32x16 p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r) + 1.0f;
  // 2^k in two factors, so that k = 128 does not overflow before the product does.
  const i32x16 n = __builtin_convertvector(k, i32x16);
  const i32x16 half = n >> 1;
  const f32x16 result =
      p * bits_as<f32x16>((half + 127) << 23) * bits_as<f32x16>((n - half + 127) << 23);
  const f32x16 bounded = x < lowest ? f32x16{} : (x > highest ? splat(INFINITY) : result);
  return x != x ? x : bounded;
}

/// Natural logarithm, within 2 ulp for normal x > 0; -infinity at 0, NaN below.
RINGLET_INLINE f32x16 log(f32x16 x) {
  f32x16 r;
  for (int i = 0; i < 16; ++i) r[i] = logf(x[i]);
  return r;
}

/// erf(x) as x P(x^2) / Q(x^2) on [-4, 4], within 8 ulp (absolute error below 5e-7).
RINGLET_INLINE f32x16 erf(f32x16 x) {
  const f32x16 c = min(max(x, splat(-4.0f)), splat(4.0f));
  const f32x16 s = c * c;
  f32x16 p = splat(-2.72614225801306e-10f);
  p = fma(p, s, splat(2.77068142495902e-08f));
  p = fma(p, s, splat(-2.10102402082508e-06f));
  p = fma(p, s, splat(-5.69250639462346e-05f));
  p = fma(p, s, splat(-7.34990630326855e-04f));
  p = fma(p, s, splat(-2.95459980854025e-03f));
  p = fma(p, s, splat(-1.60960333262415e-02f));
  f32x16 q = splat(-1.45660718464996e-05f);
  q = fma(q, s, splat(-2.13374055278905e-04f));
  q = fma(q, s, splat(-1.68282697438203e-03f));
  q = fma(q, s, splat(-7.37332916720468e-03f));
  q = fma(q, s, splat(-1.42647390514189e-02f));
  const f32x16 result = c * p / q;
  return x != x ? x : result;
}

/// tanh(x): a polynomial near 0, 1 - 2 / (e^2|x| + 1) elsewhere; within 4 ulp.
RINGLET_INLINE f32x16 tanh(f32x16 x) {
  const f32x16 a = abs(x);
  const f32x16 s = x * x;
  f32x16 p = splat(-5.70498872745e-3f);
  p = fma(p, s, splat(2.06390887954e-2f));
  p = fma(p, s, splat(-5.37397155531e-2f));
  p = fma(p, s, splat(1.33314422036e-1f));
  p = fma(p, s, splat(-3.33332819422e-1f));
  const f32x16 near = fma(p * s, x, x);
  const f32x16 far = 1.0f - 2.0f / (exp(a + a) + 1.0f);
  return a < 0.625f ? near : (x < 0.0f ? -far : far);
}

#define RINGLET_LANEWISE(name, function)               \
  RINGLET_INLINE f64x8 name(f64x8 x) {                 \
    f64x8 r{};                                         \
    for (int i = 0; i < 8; ++i) r[i] = function(x[i]); \
    return r;                                          \
  }
RINGLET_LANEWISE(exp, ::exp)
RINGLET_LANEWISE(log, ::log)
RINGLET_LANEWISE(erf, ::erf)
RINGLET_LANEWISE(tanh, ::tanh)
#undef RINGLET_LANEWISE

template <class V>
RINGLET_INLINE V sigmoid(V x) {
  return 1 / (1 + exp(-x));
}

/// The standard normal distribution function, (1 + erf(x / sqrt 2)) / 2.
template <class V>
RINGLET_INLINE V normal_cdf(V x) {
  using S = decltype(x[0] + 0);
  const V half = splat(static_cast<S>(0.5));
  return fma(half, erf(x * static_cast<S>(0.70710678118654752440)), half);
}

/// GELU, x cdf(x), and its derivative cdf(x) + x pdf(x).
template <class V>
RINGLET_INLINE V gelu(V x) {
  return x * normal_cdf(x);
}
template <class V>
RINGLET_INLINE V gelu_derivative(V x) {
  using S = decltype(x[0] + 0);
  const V pdf = static_cast<S>(0.39894228040143267794) * exp(x * x * static_cast<S>(-0.5));
  return fma(x, pdf, normal_cdf(x));
}

}  // namespace ringlet::cpu::RINGLET_ISA
