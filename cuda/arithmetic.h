// Functions that the host's and the device's compilers call by different names.
#pragma once

#include <math.h>

#include "ringlet/core/base/host_device.h"

namespace ringlet::cuda {

/// a b + c, rounded once.
RINGLET_HOST_DEVICE float multiply_add(float a, float b, float c) { return ::fmaf(a, b, c); }
RINGLET_HOST_DEVICE double multiply_add(double a, double b, double c) { return ::fma(a, b, c); }

RINGLET_HOST_DEVICE float square_root(float x) { return ::sqrtf(x); }
RINGLET_HOST_DEVICE double square_root(double x) { return ::sqrt(x); }

RINGLET_HOST_DEVICE float exponential(float x) { return ::expf(x); }
RINGLET_HOST_DEVICE double exponential(double x) { return ::exp(x); }

/// In f64 for every type, as on the CPU: it is called once per row.
template <class S>
RINGLET_HOST_DEVICE S logarithm(S x) {
  return static_cast<S>(::log(static_cast<double>(x)));
}

}  // namespace ringlet::cuda
