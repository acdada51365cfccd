// GELU of one number, equal to that of vectors in core/cpu/simd_math.h.
#pragma once

#include <math.h>

#include "ringlet/core/ops/gelu.h"

namespace ringlet::cuda {

struct ScalarFma {
  RINGLET_HOST_DEVICE float operator()(float a, float b, float c) const { return ::fmaf(a, b, c); }
};

/// The standard normal distribution function, (1 + erf(x / sqrt 2)) / 2.
RINGLET_HOST_DEVICE float normal_cdf(float x) {
  return ::fmaf(0.5f, rational_erf(x * 0.70710678118654752440f, ScalarFma{}), 0.5f);
}
RINGLET_HOST_DEVICE double normal_cdf(double x) {
  return ::fma(0.5, ::erf(x * 0.70710678118654752440), 0.5);
}

/// x cdf(x)
template <class S>
RINGLET_HOST_DEVICE S gelu(S x) {
  return x * normal_cdf(x);
}

/// cdf(x) + x pdf(x)
RINGLET_HOST_DEVICE float gelu_derivative(float x) {
  return rational_gelu_derivative(x, ScalarFma{});
}
RINGLET_HOST_DEVICE double gelu_derivative(double x) {
  return ::fma(x, 0.39894228040143267794 * ::exp(x * x * -0.5), normal_cdf(x));
}

}  // namespace ringlet::cuda
