// Element-wise functions of vectors and of numbers.
#pragma once

#include "ringlet/core/cpu/simd_math.h"
#include "ringlet/core/ops/elementwise.h"

namespace ringlet::cpu::RINGLET_ISA {

template <UnaryOp op, class V>
RINGLET_INLINE V apply(V x) {
  if constexpr (op == UnaryOp::neg) return -x;
  if constexpr (op == UnaryOp::abs) return abs(x);
  if constexpr (op == UnaryOp::exp) return exp(x);
  if constexpr (op == UnaryOp::log) return log(x);
  if constexpr (op == UnaryOp::sqrt) return sqrt(x);
  if constexpr (op == UnaryOp::rsqrt) return 1 / sqrt(x);
  if constexpr (op == UnaryOp::tanh) return tanh(x);
  if constexpr (op == UnaryOp::sigmoid) return sigmoid(x);
  if constexpr (op == UnaryOp::relu) return x < V{} ? V{} : x;
  if constexpr (op == UnaryOp::gelu) return gelu(x);
  if constexpr (op == UnaryOp::gelu_derivative) return gelu_derivative(x);
  if constexpr (op == UnaryOp::sign) return x > V{} ? V{} + 1 : (x < V{} ? V{} - 1 : V{});
  if constexpr (op == UnaryOp::square) return x * x;
  if constexpr (op == UnaryOp::reciprocal) return 1 / x;
}

template <BinaryOp op, class V>
RINGLET_INLINE auto apply(V a, V b) {
  if constexpr (op == BinaryOp::add) return static_cast<V>(a + b);
  if constexpr (op == BinaryOp::sub) return static_cast<V>(a - b);
  if constexpr (op == BinaryOp::mul) return static_cast<V>(a * b);
  if constexpr (op == BinaryOp::div) return static_cast<V>(a / b);
  // A NaN in either operand wins, as in PyTorch.
  if constexpr (op == BinaryOp::maximum) return a != a ? a : (a < b ? b : (b != b ? b : a));
  if constexpr (op == BinaryOp::minimum) return a != a ? a : (b < a ? b : (b != b ? b : a));
  if constexpr (op == BinaryOp::eq) return a == b;
  if constexpr (op == BinaryOp::ne) return a != b;
  if constexpr (op == BinaryOp::lt) return a < b;
  if constexpr (op == BinaryOp::le) return a <= b;
  if constexpr (op == BinaryOp::gt) return a > b;
  if constexpr (op == BinaryOp::ge) return a >= b;
}

}  // namespace ringlet::cpu::RINGLET_ISA
