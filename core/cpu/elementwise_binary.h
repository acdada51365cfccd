// Element-wise ops of two operands.
#pragma once

#include <type_traits>

#include "ringlet/core/cpu/broadcast.h"
#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/ops/elementwise.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

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

template <class T>
RINGLET_INLINE vector_t<T> load_operand(const T* from, std::int64_t stride, std::int64_t i,
                                        std::int64_t count) {
  return stride ? load_at(from, i, count) : splat(static_cast<scalar_t<T>>(*from));
}

template <BinaryOp op, class T>
void arithmetic(const BinaryArgs& args, Device device) {
  const int last = args.plan.dim - 1;
  for_rows<2>(args.plan, device, [&](std::int64_t at, const std::int64_t* offset, std::int64_t n) {
    const T* a = static_cast<const T*>(args.a) + offset[0];
    const T* b = static_cast<const T*>(args.b) + offset[1];
    T* out = static_cast<T*>(args.out) + at;
    for_vectors<T>(n, [&](std::int64_t i, std::int64_t count) {
      store_at(out, i, count,
               apply<op>(load_operand(a, args.plan.stride[0][last], i, count),
                         load_operand(b, args.plan.stride[1][last], i, count)));
    });
  });
}

// Integers, powers and comparisons are computed element by element.
template <class Out, class T, class Function>
void elementwise(const BinaryArgs& args, Device device, Function function) {
  const int last = args.plan.dim - 1;
  const std::int64_t sa = args.plan.stride[0][last], sb = args.plan.stride[1][last];
  for_rows<2>(args.plan, device, [&](std::int64_t at, const std::int64_t* offset, std::int64_t n) {
    const T* a = static_cast<const T*>(args.a) + offset[0];
    const T* b = static_cast<const T*>(args.b) + offset[1];
    Out* out = static_cast<Out*>(args.out) + at;
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(function(a[i * sa], b[i * sb]));
  });
}

template <BinaryOp op>
void run_binary(const BinaryArgs& args, Device device) {
  constexpr bool comparison = op >= BinaryOp::eq;
  if (is_floating(args.dtype)) {
    dispatch_floating("binary", args.dtype, [&]<class T>() {
      using S = scalar_t<T>;
      if constexpr (comparison) {
        elementwise<std::uint8_t, T>(
            args, device, [](T a, T b) { return apply<op>(static_cast<S>(a), static_cast<S>(b)); });
      } else if constexpr (op == BinaryOp::pow) {
        elementwise<T, T>(args, device, [](T a, T b) {
          return static_cast<S>(::pow(static_cast<S>(a), static_cast<S>(b)));
        });
      } else {
        arithmetic<op, T>(args, device);
      }
    });
  } else if constexpr (op == BinaryOp::div || op == BinaryOp::pow) {
    unsupported_dtype(op == BinaryOp::div ? "div" : "pow", args.dtype);
  } else {
    dispatch_integer("binary", args.dtype, [&]<class T>() {
      using Out = std::conditional_t<comparison, std::uint8_t, T>;
      elementwise<Out, T>(args, device, [](T a, T b) { return apply<op>(a, b); });
    });
  }
}

void binary(const BinaryArgs& args, Device device) {
  dispatch_value<kLastBinaryOp>(args.op, [&]<BinaryOp op>() { run_binary<op>(args, device); });
}

}  // namespace
}  // namespace ringlet::cpu::RINGLET_ISA
