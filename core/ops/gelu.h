// erf and GELU's derivative in floats. CPU vectors and CUDA use the same operations, so the bits
// are the same. V is a float or a vector of floats; `fma(a, b, c)` is a b + c.
#pragma once

#include "ringlet/core/base/host_device.h"

namespace ringlet {

/// x within [-limit, limit]; NaN becomes -limit.
template <class V>
RINGLET_HOST_DEVICE V clamped(V x, float limit) {
  const V low = V{} - limit, high = V{} + limit;
  const V above = x > low ? x : low;
  return above < high ? above : high;
}

/// erf(x) as x P(x^2) / Q(x^2) on [-4, 4], within 8 ulp (absolute error below 5e-7).
template <class V, class Fma>
RINGLET_HOST_DEVICE V rational_erf(V x, Fma fma) {
  const V c = clamped(x, 4.0f);
  const V s = c * c;
  V p = V{} - 2.72614225801306e-10f;
  p = fma(p, s, V{} + 2.77068142495902e-08f);
  p = fma(p, s, V{} - 2.10102402082508e-06f);
  p = fma(p, s, V{} - 5.69250639462346e-05f);
  p = fma(p, s, V{} - 7.34990630326855e-04f);
  p = fma(p, s, V{} - 2.95459980854025e-03f);
  p = fma(p, s, V{} - 1.60960333262415e-02f);
  V q = V{} - 1.45660718464996e-05f;
  q = fma(q, s, V{} - 2.13374055278905e-04f);
  q = fma(q, s, V{} - 1.68282697438203e-03f);
  q = fma(q, s, V{} - 7.37332916720468e-03f);
  q = fma(q, s, V{} - 1.42647390514189e-02f);
  const V result = c * p / q;
  return x != x ? x : result;
}

/// cdf(x) + x pdf(x) as 1/2 + x P(x^2) / Q(x^2) on [-6, 6], within 4.7e-8 with these coefficients.
/// Beyond, 0 or 1, within 3.7e-8 of the derivative. Absolute error below 2.5e-7 plus 2 ulp of the
/// result.
template <class V, class Fma>
RINGLET_HOST_DEVICE V rational_gelu_derivative(V x, Fma fma) {
  const V c = clamped(x, 6.0f);
  const V s = c * c;
  V p = V{} - 1.53575636e-11f;
  p = fma(p, s, V{} + 2.78501824e-09f);
  p = fma(p, s, V{} - 1.00871325e-07f);
  p = fma(p, s, V{} + 3.30083274e-05f);
  p = fma(p, s, V{} - 1.48158367e-04f);
  p = fma(p, s, V{} + 1.45299967e-02f);
  p = fma(p, s, V{} - 4.15169496e-02f);
  p = fma(p, s, V{} + 7.9788479e-01f);
  V q = V{} + 5.55671061e-06f;
  q = fma(q, s, V{} + 1.50208826e-04f);
  q = fma(q, s, V{} + 2.95229561e-03f);
  q = fma(q, s, V{} + 3.69719129e-02f);
  q = fma(q, s, V{} + 2.81302012e-01f);
  q = fma(q, s, V{} + 1.0f);
  const V inside = c * p / q + 0.5f;
  const V result = x > c ? V{} + 1.0f : (x < c ? V{} : inside);
  return x != x ? x : result;
}

}  // namespace ringlet
