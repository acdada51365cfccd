// From a dtype tag to a C++ type, as in core/cpu/dispatch.h.
#pragma once

#include "ringlet/core/base/dtype.h"

namespace ringlet::cuda {

/// Calls body.template operator()<T>() for the floating types that kernels compute on.
template <class Body>
void dispatch_floating(const char* op, DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::f64:
      return body.template operator()<double>();
    case DType::bf16:
      return body.template operator()<bfloat16>();
    default:
      unsupported_dtype(op, dtype);
  }
}

/// The same for the integer types.
template <class Body>
void dispatch_integer(const char* op, DType dtype, Body&& body) {
  switch (dtype) {
    case DType::i32:
      return body.template operator()<std::int32_t>();
    case DType::i64:
      return body.template operator()<std::int64_t>();
    case DType::u8:
      return body.template operator()<std::uint8_t>();
    default:
      unsupported_dtype(op, dtype);
  }
}

}  // namespace ringlet::cuda
