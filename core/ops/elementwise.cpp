#include "ringlet/core/ops/elementwise.h"

#include <cmath>
#include <iterator>

#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<UnaryArgs> unary_kernel("unary");
constinit OpKernel<BinaryArgs> binary_kernel("binary");
constinit OpKernel<WhereArgs> where_kernel("where");
constinit OpKernel<AxpbyArgs> axpby_kernel("axpby");

namespace {

// The stride of each output dimension in an operand: 0 if the operand is broadcast along it.
void operand_strides(const Shape& out, const Shape& shape, std::int64_t* stride) {
  std::int64_t step = 1;
  for (int i = out.dim() - 1; i >= 0; --i) {
    const int own = i - (out.dim() - shape.dim());
    const std::int64_t size = own >= 0 ? shape[own] : 1;
    stride[i] = size == 1 ? 0 : step;
    step *= size;
  }
}

// Whether the type can represent `value`; rounding is allowed.
bool has_value(DType dtype, double value) {
  if (is_floating(dtype)) return true;
  const double end = std::ldexp(1, 8 * static_cast<int>(itemsize(dtype)) - (dtype != DType::u8));
  return value == std::trunc(value) && value < end && value >= (dtype == DType::u8 ? 0 : -end);
}

bool is_comparison(BinaryOp op) { return op >= kFirstComparison; }

Tensor scalar_of(const char* op, double value, const Tensor& other) {
  RINGLET_CHECK(has_value(other.dtype(), value), "[", op, "] ", value, " is no ", other.dtype());
  return full({}, value, other.dtype(), other.device());
}

}  // namespace

const char* name(UnaryOp op) {
  constexpr const char* kNames[] = {"neg",
                                    "abs",
                                    "exp",
                                    "log",
                                    "sqrt",
                                    "rsqrt",
                                    "tanh",
                                    "sigmoid",
                                    "relu",
                                    "gelu",
                                    "gelu_derivative",
                                    "sign",
                                    "square",
                                    "reciprocal",
                                    "sin",
                                    "cos",
                                    "log1p"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(kLastUnaryOp) + 1);
  return kNames[static_cast<std::size_t>(op)];
}

const char* name(BinaryOp op) {
  constexpr const char* kNames[] = {"add", "sub", "mul", "div", "pow", "maximum", "minimum",
                                    "eq",  "ne",  "lt",  "le",  "gt",  "ge"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(kLastBinaryOp) + 1);
  return kNames[static_cast<std::size_t>(op)];
}

BroadcastPlan plan_broadcast(const Shape& out, std::initializer_list<const Shape*> operands) {
  std::int64_t stride[3][Shape::kMaxDim] = {};
  const int count = static_cast<int>(operands.size());
  for (int k = 0; k < count; ++k) operand_strides(out, *operands.begin()[k], stride[k]);

  BroadcastPlan plan{};
  for (int i = 0; i < out.dim(); ++i) {
    if (out[i] == 1) continue;
    const int last = plan.dim - 1;
    bool joins = last >= 0;
    for (int k = 0; k < count && joins; ++k) joins = plan.stride[k][last] == stride[k][i] * out[i];
    const int at = joins ? last : plan.dim++;
    plan.size[at] = joins ? plan.size[at] * out[i] : out[i];
    for (int k = 0; k < count; ++k) plan.stride[k][at] = stride[k][i];
  }
  if (plan.dim == 0) {
    plan.size[0] = 1;
    plan.dim = 1;
  }
  return plan;
}

Tensor unary(UnaryOp op, const Tensor& x) {
  check_computes(name(op), x.dtype());
  Tensor out = empty_like(x);
  if (x.numel() > 0)
    unary_kernel({out.mutable_bytes(), x.bytes(), x.numel(), op, x.dtype()}, x.device());
  return out;
}

Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b) {
  check_same_device(name(op), a, b);
  check_same_dtype(name(op), a, b);
  if (a.dtype() == DType::f16) unsupported_dtype(name(op), a.dtype());
  const Shape shape = broadcast(a.shape(), b.shape(), name(op));
  Tensor out = empty(shape, is_comparison(op) ? DType::u8 : a.dtype(), a.device());
  if (out.numel() > 0)
    binary_kernel({out.mutable_bytes(), a.bytes(), b.bytes(),
                   plan_broadcast(shape, {&a.shape(), &b.shape()}), op, a.dtype()},
                  a.device());
  return out;
}

Tensor binary(BinaryOp op, const Tensor& a, double b) {
  if (a.dtype() != DType::bf16) return binary(op, a, scalar_of(name(op), b, a));
  const Tensor wide = binary(op, a.to(DType::f32), b);
  return is_comparison(op) ? wide : wide.to(DType::bf16);
}

Tensor binary(BinaryOp op, double a, const Tensor& b) {
  if (b.dtype() != DType::bf16) return binary(op, scalar_of(name(op), a, b), b);
  const Tensor wide = binary(op, a, b.to(DType::f32));
  return is_comparison(op) ? wide : wide.to(DType::bf16);
}

Tensor scalar_like(double value, const Tensor& other) {
  return scalar_of("scalar_like", value, other);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  check_same_device("where", a, b);
  check_same_device("where", a, condition);
  check_same_dtype("where", a, b);
  RINGLET_CHECK_EQ(condition.dtype(), DType::u8, "[where] dtype of the condition");
  const Shape shape =
      broadcast(condition.shape(), broadcast(a.shape(), b.shape(), "where"), "where");
  Tensor out = empty(shape, a.dtype(), a.device());
  if (out.numel() > 0)
    where_kernel({out.mutable_bytes(), condition.data<std::uint8_t>(), a.bytes(), b.bytes(),
                  plan_broadcast(shape, {&condition.shape(), &a.shape(), &b.shape()}), a.dtype()},
                 a.device());
  return out;
}

void axpby(Tensor& out, double alpha, const Tensor& x, double beta) {
  check_same_device("axpby", out, x);
  check_same_dtype("axpby", out, x);
  RINGLET_CHECK_EQ(out.numel(), x.numel(), "[axpby] ", x.shape(), " into ", out.shape());
  if (x.numel() > 0)
    axpby_kernel({out.mutable_bytes(), x.bytes(), x.numel(), alpha, beta, x.dtype()}, x.device());
}

Tensor scale(const Tensor& x, double alpha) {
  check_computes("scale", x.dtype());
  Tensor out = empty_like(x);
  axpby(out, alpha, x, 0);
  return out;
}

}  // namespace ringlet
