// The destination of a parameter's gradient.
#pragma once

#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

/// out = gradient + beta * out with beta 0 or 1; with 0, out may be uninitialised. Undefined if the
/// gradient is not needed.
struct GradientSink {
  Tensor out;
  double beta = 0;

  explicit operator bool() const { return out.defined(); }
  std::byte* bytes() { return out ? out.mutable_bytes() : nullptr; }
};

/// The dtype of parameters for activations of `dtype`: f64 for f64, f32 for f32 and bf16.
inline DType parameter_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace ringlet
