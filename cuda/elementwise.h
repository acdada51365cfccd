// The element-wise functions of one number; S is f32, f64 or an integer.
#pragma once

#include <type_traits>

#include "ringlet/core/ops/elementwise.h"
#include "ringlet/cuda/gelu.h"

namespace ringlet::cuda {

/// 0 where an f32 would be denormal, as on the CPU.
template <class S>
RINGLET_HOST_DEVICE S exp_of(S x) {
  if constexpr (std::is_same_v<S, float>)
    if (x < -87.33654f) return 0;
  return ::exp(x);
}

template <UnaryOp op, class S>
RINGLET_HOST_DEVICE S apply(S x) {
  if constexpr (op == UnaryOp::neg) return -x;
  if constexpr (op == UnaryOp::abs) return ::fabs(x);
  if constexpr (op == UnaryOp::exp) return exp_of(x);
  if constexpr (op == UnaryOp::log) return ::log(x);
  if constexpr (op == UnaryOp::sqrt) return ::sqrt(x);
  if constexpr (op == UnaryOp::rsqrt) return S{1} / ::sqrt(x);
  if constexpr (op == UnaryOp::tanh) return ::tanh(x);
  if constexpr (op == UnaryOp::sigmoid) return S{1} / (S{1} + ::exp(-x));
  if constexpr (op == UnaryOp::relu) return x < S{0} ? S{0} : x;
  if constexpr (op == UnaryOp::gelu) return gelu(x);
  if constexpr (op == UnaryOp::gelu_derivative) return gelu_derivative(x);
  if constexpr (op == UnaryOp::sign) return x > S{0} ? S{1} : (x < S{0} ? S{-1} : S{0});
  if constexpr (op == UnaryOp::square) return x * x;
  if constexpr (op == UnaryOp::reciprocal) return S{1} / x;
}

/// Arithmetic. Integers wrap around.
template <BinaryOp op, class S>
RINGLET_HOST_DEVICE S apply(S a, S b) {
  if constexpr (std::is_integral_v<S> && op <= BinaryOp::mul) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    return static_cast<S>(op == BinaryOp::add ? x + y : op == BinaryOp::sub ? x - y : x * y);
  } else {
    if constexpr (op == BinaryOp::add) return a + b;
    if constexpr (op == BinaryOp::sub) return a - b;
    if constexpr (op == BinaryOp::mul) return a * b;
    if constexpr (op == BinaryOp::div) return a / b;
    // In f64, because the device's powf is accurate to 4 ulp only.
    if constexpr (op == BinaryOp::pow)
      return static_cast<S>(::pow(static_cast<double>(a), static_cast<double>(b)));
    // A NaN in either operand wins, as in PyTorch.
    if constexpr (op == BinaryOp::maximum) return a != a ? a : (a < b ? b : (b != b ? b : a));
    if constexpr (op == BinaryOp::minimum) return a != a ? a : (b < a ? b : (b != b ? b : a));
  }
}

/// A comparison as the set of outcomes for which it holds, so that one kernel serves all of them.
enum Outcome : unsigned { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };

inline unsigned outcomes(BinaryOp op) {
  switch (op) {
    case BinaryOp::eq:
      return kEqual;
    case BinaryOp::ne:
      return kLess | kGreater | kUnordered;
    case BinaryOp::lt:
      return kLess;
    case BinaryOp::le:
      return kLess | kEqual;
    case BinaryOp::gt:
      return kGreater;
    case BinaryOp::ge:
      return kGreater | kEqual;
    default:
      return 0;
  }
}

template <class S>
RINGLET_HOST_DEVICE unsigned outcome(S a, S b) {
  return a < b ? kLess : a == b ? kEqual : a > b ? kGreater : kUnordered;
}

}  // namespace ringlet::cuda
