// From a tag to a C++ type or constant inside a kernel. Static, so that kernel files of different
// instruction sets share no symbol.
#pragma once

#include <cstdlib>
#include <utility>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/kernel.h"

namespace ringlet {

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

/// The same for all types.
template <class Body>
static inline void dispatch_all(const char* op, DType dtype, Body&& body) {
  if (dtype == DType::f16) return body.template operator()<float16>();
  is_floating(dtype) ? dispatch_floating(op, dtype, body) : dispatch_integer(op, dtype, body);
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

/// Calls body.template operator()<value>() for a value of an enum that ends with kLast.
template <auto kLast, class Body>
static inline void dispatch_value(decltype(kLast) value, Body&& body) {
  using Enum = decltype(kLast);
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    if (!((value == Enum{kIndex} && (body.template operator()<Enum{kIndex}>(), true)) || ...))
      std::abort();  // kLast is not the last value
  }
  (std::make_integer_sequence<int, static_cast<int>(kLast) + 1>());
}

/// Sets X<T>(args, device) as X's kernel for args.dtype, a floating type, on cpu or cuda.
#define RINGLET_SET_FLOATING(type, X)                                          \
  X##_kernel.set(DeviceType::type, [](const auto& args, Device device) {       \
    dispatch_floating(#X, args.dtype, [&]<class T>() { X<T>(args, device); }); \
  })

}  // namespace ringlet
