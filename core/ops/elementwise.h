// Element-wise ops. Binary ops broadcast as NumPy does; both operands have one dtype and device.
// Floating types only, except add, sub, mul, maximum, minimum and the comparisons, which also take
// integers. Comparisons give u8 (0 or 1).
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

/// Values keep their numbers, and new ones go last: tests/emulated/counters.tsv names kernels by
/// them.
enum class UnaryOp {
  neg,
  abs,
  exp,
  log,
  sqrt,
  rsqrt,
  tanh,
  sigmoid,
  relu,
  gelu,
  gelu_derivative,
  sign,
  square,
  reciprocal,
  sin,
  cos,
  log1p
};
inline constexpr UnaryOp kLastUnaryOp = UnaryOp::log1p;
/// New functions precede the comparisons, which stay last.
enum class BinaryOp { add, sub, mul, div, pow, maximum, minimum, eq, ne, lt, le, gt, ge };
inline constexpr BinaryOp kFirstComparison = BinaryOp::eq, kLastBinaryOp = BinaryOp::ge;

/// The function's name, for example "exp" or "add".
const char* name(UnaryOp op);
const char* name(BinaryOp op);

struct UnaryArgs {
  void* out;       // (n)
  const void* in;  // (n)
  std::int64_t n;
  UnaryOp op;
  DType dtype;
};
extern OpKernel<UnaryArgs> unary_kernel;

/// Broadcasting, with adjacent dimensions merged if all operands allow it. Strides are in elements:
/// 0 along broadcast dimensions, and 0 or 1 in the innermost one.
struct BroadcastPlan {
  int dim = 0;
  std::int64_t size[Shape::kMaxDim];
  std::int64_t stride[3][Shape::kMaxDim];  // per operand
};
BroadcastPlan plan_broadcast(const Shape& out, std::initializer_list<const Shape*> operands);

struct BinaryArgs {
  void* out;
  const void* a;
  const void* b;
  BroadcastPlan plan;
  BinaryOp op;
  DType dtype;  // of a and b
};
extern OpKernel<BinaryArgs> binary_kernel;

struct WhereArgs {
  void* out;
  const std::uint8_t* condition;
  const void* a;
  const void* b;
  BroadcastPlan plan;  // operands: condition, a, b
  DType dtype;
};
extern OpKernel<WhereArgs> where_kernel;

struct AxpbyArgs {
  void* out;       // (n), out = alpha * in + beta * out
  const void* in;  // (n)
  std::int64_t n;
  double alpha;
  double beta;
  DType dtype;
};
extern OpKernel<AxpbyArgs> axpby_kernel;

Tensor unary(UnaryOp op, const Tensor& x);
Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b);
/// A number has the tensor's dtype. With bf16 tensors it is f32, as in PyTorch.
Tensor binary(BinaryOp op, const Tensor& a, double b);
Tensor binary(BinaryOp op, double a, const Tensor& b);

/// A number in a tensor's dtype; throws if an integer type cannot represent it.
Tensor scalar_like(double value, const Tensor& other);  // ()

inline Tensor neg(const Tensor& x) { return unary(UnaryOp::neg, x); }
inline Tensor abs(const Tensor& x) { return unary(UnaryOp::abs, x); }
/// For f32 and bf16, 0 below -87.3, where the result would be denormal.
inline Tensor exp(const Tensor& x) { return unary(UnaryOp::exp, x); }
inline Tensor log(const Tensor& x) { return unary(UnaryOp::log, x); }
inline Tensor sqrt(const Tensor& x) { return unary(UnaryOp::sqrt, x); }
inline Tensor rsqrt(const Tensor& x) { return unary(UnaryOp::rsqrt, x); }
inline Tensor tanh(const Tensor& x) { return unary(UnaryOp::tanh, x); }
inline Tensor sigmoid(const Tensor& x) { return unary(UnaryOp::sigmoid, x); }
inline Tensor relu(const Tensor& x) { return unary(UnaryOp::relu, x); }
/// x (1 + erf(x / sqrt 2)) / 2. Infinity stays, with slope 1; PyTorch may give NaN.
inline Tensor gelu(const Tensor& x) { return unary(UnaryOp::gelu, x); }
/// -1, 0 or 1; 0 for NaN, as in PyTorch
inline Tensor sign(const Tensor& x) { return unary(UnaryOp::sign, x); }
inline Tensor square(const Tensor& x) { return unary(UnaryOp::square, x); }
inline Tensor reciprocal(const Tensor& x) { return unary(UnaryOp::reciprocal, x); }
inline Tensor sin(const Tensor& x) { return unary(UnaryOp::sin, x); }
inline Tensor cos(const Tensor& x) { return unary(UnaryOp::cos, x); }
/// log(1 + x), also near 0 as exact as log elsewhere
inline Tensor log1p(const Tensor& x) { return unary(UnaryOp::log1p, x); }

inline Tensor add(const Tensor& a, const Tensor& b) { return binary(BinaryOp::add, a, b); }
inline Tensor sub(const Tensor& a, const Tensor& b) { return binary(BinaryOp::sub, a, b); }
inline Tensor mul(const Tensor& a, const Tensor& b) { return binary(BinaryOp::mul, a, b); }
inline Tensor div(const Tensor& a, const Tensor& b) { return binary(BinaryOp::div, a, b); }
inline Tensor add(const Tensor& a, double b) { return binary(BinaryOp::add, a, b); }
inline Tensor sub(const Tensor& a, double b) { return binary(BinaryOp::sub, a, b); }
inline Tensor mul(const Tensor& a, double b) { return binary(BinaryOp::mul, a, b); }
inline Tensor div(const Tensor& a, double b) { return binary(BinaryOp::div, a, b); }
inline Tensor pow(const Tensor& a, const Tensor& b) { return binary(BinaryOp::pow, a, b); }
inline Tensor maximum(const Tensor& a, const Tensor& b) { return binary(BinaryOp::maximum, a, b); }
inline Tensor minimum(const Tensor& a, const Tensor& b) { return binary(BinaryOp::minimum, a, b); }
inline Tensor eq(const Tensor& a, const Tensor& b) { return binary(BinaryOp::eq, a, b); }
inline Tensor ne(const Tensor& a, const Tensor& b) { return binary(BinaryOp::ne, a, b); }
inline Tensor lt(const Tensor& a, const Tensor& b) { return binary(BinaryOp::lt, a, b); }
inline Tensor le(const Tensor& a, const Tensor& b) { return binary(BinaryOp::le, a, b); }
inline Tensor gt(const Tensor& a, const Tensor& b) { return binary(BinaryOp::gt, a, b); }
inline Tensor ge(const Tensor& a, const Tensor& b) { return binary(BinaryOp::ge, a, b); }

inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return binary(BinaryOp::add, a, b); }
inline Tensor operator-(const Tensor& a, double b) { return binary(BinaryOp::sub, a, b); }
inline Tensor operator*(const Tensor& a, double b) { return binary(BinaryOp::mul, a, b); }
inline Tensor operator/(const Tensor& a, double b) { return binary(BinaryOp::div, a, b); }
inline Tensor operator+(double a, const Tensor& b) { return b + a; }
inline Tensor operator-(double a, const Tensor& b) { return binary(BinaryOp::sub, a, b); }
inline Tensor operator*(double a, const Tensor& b) { return b * a; }
/// reciprocal(b) * a, as in PyTorch.
inline Tensor operator/(double a, const Tensor& b) { return reciprocal(b) * a; }

/// condition (u8) ? a : b; all three are broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

/// out = alpha * x + beta * out; beta 0 never reads out. Same numel and dtype.
void axpby(Tensor& out, double alpha, const Tensor& x, double beta);
/// alpha * x
Tensor scale(const Tensor& x, double alpha);

}  // namespace ringlet
