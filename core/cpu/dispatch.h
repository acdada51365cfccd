// From a dtype tag to a C++ type inside a kernel.
#pragma once

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/base/error.h"

namespace ringlet::cpu::RINGLET_ISA {

/// Calls body.template operator()<T>() for the floating types that kernels compute on.
template <class Body>
static inline void dispatch_floating(const char* op, DType dtype, Body&& body) {
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
static inline void dispatch_integer(const char* op, DType dtype, Body&& body) {
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

/// The same for ops that only move elements: T is the unsigned word of the element's size.
template <class Body>
static inline void dispatch_word(std::int64_t itemsize, Body&& body) {
  switch (itemsize) {
    case 1:
      return body.template operator()<std::uint8_t>();
    case 2:
      return body.template operator()<std::uint16_t>();
    case 4:
      return body.template operator()<std::uint32_t>();
    default:
      return body.template operator()<std::uint64_t>();
  }
}

}  // namespace ringlet::cpu::RINGLET_ISA
