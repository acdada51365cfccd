// exp, log, erf and tanh on vectors, and functions derived from them. Floats use polynomials. Their
// error bounds, in ulp (the distance to the next float), are checked by tests/core/simd_math.cpp.
// Doubles, and all sines, cosines and log1p, call the C library lane by lane.
#pragma once

#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/ops/gelu.h"

namespace ringlet::cpu::RINGLET_ISA {

/// x = k ln 2 + r with |r| <= ln 2 / 2, for |x| below 89; e^x is 2^k times e^r.
struct ExpParts {
  f32x16 of_r;     // e^r
  f32x16 k;        // an integer
  f32x16 shifted;  // k in its lowest bits
};
RINGLET_INLINE ExpParts exp_parts(f32x16 x) {
  const f32x16 magic = splat(12582912.0f);  // adding 1.5 * 2^23 rounds to the nearest integer
  const f32x16 shifted = fma(x, splat(1.44269504f), magic);
  const f32x16 k = shifted - magic;
  f32x16 r = fma(k, splat(-0.693359375f), x);
  r = fma(k, splat(2.12194440e-4f), r);
  f32x16 p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  return {fma(p, r * r, r) + 1.0f, k, shifted};
}

/// e^x, within 2 ulp; 0 below -87.3 and infinity above 88.7 (no denormal results).
RINGLET_INLINE f32x16 exp(f32x16 x) {
  const f32x16 lowest = splat(-87.33654f), highest = splat(88.72284f);
  const ExpParts parts = exp_parts(min(max(x, lowest), highest));
  // 2^k in two factors: k = 128 must not overflow before the product does.
  const i32x16 n = __builtin_convertvector(parts.k, i32x16);
  const i32x16 half = n >> 1;
  const f32x16 result =
      parts.of_r * bits_as<f32x16>((half + 127) << 23) * bits_as<f32x16>((n - half + 127) << 23);
  const f32x16 bounded = x < lowest ? f32x16{} : (x > highest ? splat(INFINITY) : result);
  return x != x ? x : bounded;
}

/// e^x for x <= 88, within 2 ulp; 0 below -87.3. Cheaper than exp; used mostly by softmax.
RINGLET_INLINE f32x16 exp_below_88(f32x16 x) {
  const f32x16 lowest = splat(-87.33654f);
  const ExpParts parts = exp_parts(lowest > x ? lowest : x);  // keeps NaN
  // k is in [-126, 127]; the bits above it are shifted out.
  const f32x16 power = bits_as<f32x16>((bits_as<i32x16>(parts.shifted) + 127) << 23);
  return lowest > x ? f32x16{} : parts.of_r * power;
}

/// Natural logarithm, within 2 ulp for x > 0; -infinity at 0, NaN below.
RINGLET_INLINE f32x16 log(f32x16 x) {
  const f32x16 least = splat(0x1p-126f);
  const f32x16 normal = x < least ? x * 0x1p23f : x;
  // x = 2^k m with m = 1 + r in [sqrt(1/2), sqrt(2)].
  const i32x16 above = bits_as<i32x16>(bits_as<u32x16>(normal) - 0x3f3504f3u);
  const i32x16 exponent = above >> 23;
  const f32x16 r = bits_as<f32x16>(bits_as<i32x16>(normal) - (exponent << 23)) - 1.0f;
  const f32x16 k =
      __builtin_convertvector(exponent, f32x16) - (x < least ? splat(23.0f) : f32x16{});
  const f32x16 s = r * r;
  f32x16 p = splat(7.0376836292e-2f);
  p = fma(p, r, splat(-1.1514610310e-1f));
  p = fma(p, r, splat(1.1676998740e-1f));
  p = fma(p, r, splat(-1.2420140846e-1f));
  p = fma(p, r, splat(1.4249322787e-1f));
  p = fma(p, r, splat(-1.6668057665e-1f));
  p = fma(p, r, splat(2.0000714765e-1f));
  p = fma(p, r, splat(-2.4999993993e-1f));
  p = fma(p, r, splat(3.3333331174e-1f));
  f32x16 small = fma(p * r, s, k * splat(-2.12194440e-4f));
  small = fma(s, splat(-0.5f), small);
  const f32x16 result = fma(k, splat(0.693359375f), r + small);
  const f32x16 positive = x < splat(INFINITY) ? result : x;  // infinity and NaN unchanged
  const f32x16 other = x == f32x16{} ? splat(-INFINITY) : splat(NAN);
  return x > f32x16{} ? positive : other;
}

struct VectorFma {
  __attribute__((always_inline)) f32x16 operator()(f32x16 a, f32x16 b, f32x16 c) const {
    return fma(a, b, c);
  }
};

/// Within 8 ulp (absolute error below 5e-7).
RINGLET_INLINE f32x16 erf(f32x16 x) { return rational_erf(x, VectorFma{}); }

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

#define RINGLET_LANEWISE(V, lanes, name, function)         \
  RINGLET_INLINE V name(V x) {                             \
    for (int i = 0; i < lanes; ++i) x[i] = function(x[i]); \
    return x;                                              \
  }
RINGLET_LANEWISE(f64x8, 8, exp, ::exp)
RINGLET_LANEWISE(f64x8, 8, exp_below_88, ::exp)
RINGLET_LANEWISE(f64x8, 8, log, ::log)
RINGLET_LANEWISE(f64x8, 8, erf, ::erf)
RINGLET_LANEWISE(f64x8, 8, tanh, ::tanh)
RINGLET_LANEWISE(f64x8, 8, sin, ::sin)
RINGLET_LANEWISE(f64x8, 8, cos, ::cos)
RINGLET_LANEWISE(f64x8, 8, log1p, ::log1p)
/// The C library's, within 2 ulp at every argument.
RINGLET_LANEWISE(f32x16, 16, sin, ::sinf)
RINGLET_LANEWISE(f32x16, 16, cos, ::cosf)
RINGLET_LANEWISE(f32x16, 16, log1p, ::log1pf)
#undef RINGLET_LANEWISE

/// Floats: within 6 ulp. exp has 2, the sum and the quotient half an ulp each, and a power of 2 in
/// between doubles that.
template <class V>
RINGLET_INLINE V sigmoid(V x) {
  return 1 / (1 + exp(-x));
}

/// The standard normal distribution function, (1 + erf(x / sqrt 2)) / 2. Floats: absolute error
/// below 2.5e-7 (half of erf's) plus 1 ulp.
template <class V>
RINGLET_INLINE V normal_cdf(V x) {
  using S = decltype(x[0] + 0);
  const V half = splat(static_cast<S>(0.5));
  return fma(half, erf(x * static_cast<S>(0.70710678118654752440)), half);
}

/// GELU, x cdf(x), and its derivative, cdf(x) + x pdf(x). Floats: GELU within 2.5e-7 |x| plus 1 ulp
/// of the result.
template <class V>
RINGLET_INLINE V gelu(V x) {
  return x * normal_cdf(x);
}
RINGLET_INLINE f64x8 gelu_derivative(f64x8 x) {
  return fma(x, 0.39894228040143267794 * exp(x * x * -0.5), normal_cdf(x));
}
/// Absolute error below 2.5e-7 plus 2 ulp of the result.
RINGLET_INLINE f32x16 gelu_derivative(f32x16 x) { return rational_gelu_derivative(x, VectorFma{}); }

}  // namespace ringlet::cpu::RINGLET_ISA
