// Checks of an op's arguments: kernels read, and some write, at positions that these give. Values
// are checked on a CPU only.
#pragma once

#include "ringlet/core/ops/gradient_sink.h"

namespace ringlet {

/// Throws "[op] ..." unless `tensor` has this shape, dtype and device.
inline void check_tensor(const char* op, const char* what, const Tensor& tensor, const Shape& shape,
                         DType dtype, Device device) {
  RINGLET_CHECK(tensor.defined(), "[", op, "] ", what, " is missing");
  check_shape(op, what, tensor, shape);
  RINGLET_CHECK_EQ(tensor.dtype(), dtype, "[", op, "] dtype of ", what);
  RINGLET_CHECK_EQ(tensor.device(), device, "[", op, "] device of ", what);
}

/// Throws unless `tensor` is like `other` in all three.
inline void check_like(const char* op, const char* what, const Tensor& tensor,
                       const Tensor& other) {
  check_tensor(op, what, tensor, other.shape(), other.dtype(), other.device());
}

/// The same for a parameter, or a number per row, of these activations.
inline void check_parameter(const char* op, const char* what, const Tensor& parameter,
                            const Shape& shape, const Tensor& activations) {
  check_tensor(op, what, parameter, shape, parameter_dtype(activations.dtype()),
               activations.device());
}

/// The number of rows; throws unless x has columns.
inline std::int64_t rows_of(const char* op, const Tensor& x) {
  RINGLET_CHECK(x.dim() > 0 && x.size(-1) > 0, "[", op, "] no columns in ", x.shape());
  return x.numel() / x.size(-1);
}

}  // namespace ringlet
