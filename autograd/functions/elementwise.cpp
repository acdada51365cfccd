// Element-wise functions and dropout, with their gradients.
#include "ringlet/autograd/functions.h"

#include <utility>

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/checks.h"

namespace ringlet::autograd {

// ---- unary: the gradient is a product with a function of x or y ----------------------------

namespace {

bool saves_input(UnaryOp op) {
  return op == UnaryOp::abs || op == UnaryOp::log || op == UnaryOp::gelu || op == UnaryOp::square ||
         op == UnaryOp::sin || op == UnaryOp::cos || op == UnaryOp::log1p;
}
bool saves_nothing(UnaryOp op) { return op == UnaryOp::neg || op == UnaryOp::sign; }

/// `saved` is x if saves_input(op), else y.
Tensor unary_gradient(UnaryOp op, const Tensor& grad, const Tensor& saved) {
  const auto scalar = [&](double value) { return scalar_like(value, grad); };
  if (op == UnaryOp::neg) return neg(grad);
  if (op == UnaryOp::abs) return mul(grad, sign(saved));
  if (op == UnaryOp::exp) return mul(grad, saved);
  if (op == UnaryOp::log) return div(grad, saved);
  if (op == UnaryOp::sqrt) return div(grad, scale(saved, 2));
  if (op == UnaryOp::rsqrt) return mul(grad, scale(pow(saved, scalar(3)), -0.5));
  if (op == UnaryOp::tanh) return mul(grad, sub(scalar(1), square(saved)));
  if (op == UnaryOp::sigmoid) return mul(grad, mul(saved, sub(scalar(1), saved)));
  if (op == UnaryOp::relu) return where(le(saved, scalar(0)), scalar(0), grad);  // NaN passes grad
  if (op == UnaryOp::gelu) return mul(grad, unary(UnaryOp::gelu_derivative, saved));
  if (op == UnaryOp::sign) return zeros_like(grad);
  if (op == UnaryOp::square) return mul(grad, scale(saved, 2));
  if (op == UnaryOp::reciprocal) return neg(mul(grad, square(saved)));
  if (op == UnaryOp::sin) return mul(grad, ringlet::cos(saved));
  if (op == UnaryOp::cos) return neg(mul(grad, ringlet::sin(saved)));
  if (op == UnaryOp::log1p) return div(grad, add(saved, scalar(1)));
  fail("[", name(op), "] has no gradient");
}

}  // namespace

Variable unary(UnaryOp op, const Variable& x) {
  const Tensor y = ringlet::unary(op, x.tensor());
  const Saved saved = saves_nothing(op) ? Saved() : saves_input(op) ? Saved(x) : Saved(y);
  return record(name(op), y, {x}, [op, saved](const Tensor& grad, Gradients& grads) {
    grads[0].set(unary_gradient(op, grad, saved.tensor(grads)));
  });
}

// ---- binary: gradients are summed over broadcast dimensions --------------------------------

namespace {

struct BinaryBackward {
  BinaryOp op;
  Shape a_shape, b_shape;
  Saved a{}, b{};

  void operator()(const Tensor& grad, Gradients& grads) const {
    if (grads[0].needed()) grads[0].set(sum_to(for_a(grad, grads), a_shape));
    if (grads[1].needed()) grads[1].set(sum_to(for_b(grad, grads), b_shape));
  }

  // Ties of maximum and minimum share the gradient; next to a NaN both get it, as in PyTorch.
  Tensor share(const Tensor& grad, const Tensor& mine, const Tensor& other) const {
    const bool max = op == BinaryOp::maximum;
    const Tensor beaten = max ? lt(mine, other) : gt(mine, other);
    const Tensor zero = scalar_like(0, grad);
    return where(beaten, zero, where(eq(mine, other), scale(grad, 0.5), grad));
  }

  Tensor for_a(const Tensor& grad, const Gradients& grads) const {
    if (op == BinaryOp::add || op == BinaryOp::sub) return grad;
    if (op == BinaryOp::mul) return mul(grad, b.tensor(grads));
    if (op == BinaryOp::div) return div(grad, b.tensor(grads));
    if (op != BinaryOp::pow) return share(grad, a.tensor(grads), b.tensor(grads));
    const Tensor& exponent = b.tensor(grads);
    const Tensor lower = sub(exponent, scalar_like(1, exponent));
    const Tensor slope = mul(exponent, pow(a.tensor(grads), lower));
    // x^0 is 1 also at 0, where the formula gives 0 times infinity.
    const Tensor zero = scalar_like(0, exponent);
    return where(eq(exponent, zero), zero, mul(grad, slope));
  }

  Tensor for_b(const Tensor& grad, const Gradients& grads) const {
    if (op == BinaryOp::add) return grad;
    if (op == BinaryOp::sub) return neg(grad);
    const Tensor& first = a.tensor(grads);
    if (op == BinaryOp::mul) return mul(grad, first);
    const Tensor& second = b.tensor(grads);
    // Divided twice: the divisor's square may overflow or underflow.
    if (op == BinaryOp::div) return neg(mul(grad, div(div(first, second), second)));
    if (op != BinaryOp::pow) return share(grad, second, first);
    // 0^b has slope 0 in b >= 0, although its logarithm is infinite.
    const Tensor power = mul(pow(first, second), ringlet::log(first));
    const Tensor zero = scalar_like(0, grad);
    const Tensor flat = mul(eq(first, zero), ge(second, zero));
    return mul(grad, where(flat, zero, power));
  }
};

}  // namespace

Variable binary(BinaryOp op, const Variable& a, const Variable& b) {
  BinaryBackward backward{op, a.shape(), b.shape()};
  // A sum needs no operand; a product needs one only for the gradient of the other.
  const bool sum = op == BinaryOp::add || op == BinaryOp::sub, both = op != BinaryOp::mul;
  if (!sum && (both || b.requires_grad())) backward.a = a;
  if (!sum && (both || a.requires_grad())) backward.b = b;
  return record(name(op), ringlet::binary(op, a.tensor(), b.tensor()), {a, b}, std::move(backward));
}

Variable pow(const Variable& x, double exponent) try {
  return pow(x, Variable(scalar_like(exponent, x.tensor())));
} catch (const Error& error) {
  fail_as("pow", error);
}

// ---- numbers and choices ------------------------------------------------------------------

Variable scale(const Variable& x, double factor) {
  return record("scale", ringlet::scale(x.tensor(), factor), {x},
                [factor](const Tensor& grad, Gradients& grads) {
                  grads[0].set(ringlet::scale(grad, factor));
                });
}
Variable operator/(const Variable& x, double divisor) {
  return record("div", x.tensor() / divisor, {x},
                [divisor](const Tensor& grad, Gradients& grads) { grads[0].set(grad / divisor); });
}

namespace {
void pass_gradient(const Tensor& grad, Gradients& grads) { grads[0].set(grad); }
}  // namespace

Variable operator+(const Variable& x, double term) {
  return record("add", x.tensor() + term, {x}, pass_gradient);
}
Variable operator-(const Variable& x, double term) {
  return record("sub", x.tensor() - term, {x}, pass_gradient);
}
Variable operator-(double a, const Variable& b) {
  return record("sub", a - b.tensor(), {b},
                [](const Tensor& grad, Gradients& grads) { grads[0].set(neg(grad)); });
}

Variable where(const Tensor& condition, const Variable& a, const Variable& b) {
  auto backward = [condition = Saved(condition), a_shape = a.shape(), b_shape = b.shape()](
                      const Tensor& grad, Gradients& grads) {
    const Tensor zero = scalar_like(0, grad);
    const Tensor& mask = condition.tensor(grads);
    if (grads[0].needed()) grads[0].set(sum_to(ringlet::where(mask, grad, zero), a_shape));
    if (grads[1].needed()) grads[1].set(sum_to(ringlet::where(mask, zero, grad), b_shape));
  };
  return record("where", ringlet::where(condition, a.tensor(), b.tensor()), {a, b},
                std::move(backward));
}

Variable masked_fill(const Variable& x, const Tensor& mask, double value) try {
  return where(mask, scalar_like(value, x.tensor()), x);
} catch (const Error& error) {
  fail_as("masked_fill", error);
}

Variable clamp(const Variable& x, double low, double high) try {
  const Tensor least = scalar_like(low, x.tensor()), most = scalar_like(high, x.tensor());
  const Tensor inside = mul(gt(x.tensor(), least), lt(x.tensor(), most));
  return where(inside, x, minimum(maximum(x.tensor(), least), most));
} catch (const Error& error) {
  fail_as("clamp", error);
}

Variable silu(const Variable& x) try { return x * sigmoid(x); } catch (const Error& error) {
  fail_as("silu", error);
}

Variable dropout(const Variable& x, const DropoutKey& key, const Tensor& positions) {
  if (key.p == 0) return x;
  return record("dropout", ringlet::dropout(x.tensor(), key, positions), {x},
                [key, positions](const Tensor& grad, Gradients& grads) {
                  // The mask is drawn again, not stored.
                  grads[0].set(ringlet::dropout(grad, key, positions));
                });
}

}  // namespace ringlet::autograd
