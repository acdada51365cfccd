// Checks of an op's arguments: kernels read, and some write, at positions that these give. Values
// are checked on a CPU only.
#pragma once

#include <string_view>
#include <typeinfo>

#include "ringlet/core/ops/gradient_sink.h"

namespace ringlet {

/// `axis` in 0..dim-1, negative allowed. Throws "[op] axis 5 of shape (2, 3)".
inline int axis_of(const char* op, const Shape& shape, int axis) {
  RINGLET_CHECK(-shape.dim() <= axis && axis < shape.dim(), "[", op, "] axis ", axis, " of shape ",
                shape);
  return shape.index(axis);
}

/// Throws unless kernels compute with this dtype.
inline void check_computes(const char* op, DType dtype) {
  if (!is_floating(dtype) || dtype == DType::f16) unsupported_dtype(op, dtype);
}

/// In a handler: throws the error of an inner op again, in the name of `op`, which calls it.
[[noreturn]] inline void fail_as(const char* op, const Error& error) {
  if (typeid(error) != typeid(Error) && typeid(error) != typeid(InputError)) throw;
  std::string_view text = error.what();
  if (text.starts_with("[allocate]")) throw;  // users look for that word
  if (const auto end = text.find("] "); text.starts_with('[') && end != text.npos)
    text.remove_prefix(end + 2);
  if (typeid(error) == typeid(InputError)) fail_input("[", op, "] ", text);
  fail("[", op, "] ", text);
}

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

/// Throws unless x has a last axis and a dtype with which kernels compute.
inline void check_rows(const char* op, const Tensor& x) {
  RINGLET_CHECK(x.dim() > 0, "[", op, "] needs a last axis, got a scalar");
  check_computes(op, x.dtype());
}

/// The number of rows; throws unless x has columns.
inline std::int64_t rows_of(const char* op, const Tensor& x) {
  RINGLET_CHECK(x.dim() > 0 && x.size(-1) > 0, "[", op, "] no columns in ", x.shape());
  return x.numel() / x.size(-1);
}

}  // namespace ringlet
