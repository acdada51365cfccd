// Element-wise functions, as in core/ops/elementwise.h, with their gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/reduce.h"

namespace ringlet::autograd {

// ---- unary: the gradient is a product with a function of x or y ----------------------------

struct UnaryNode final : Node {
  UnaryOp op;
  Saved x;
  Saved y;
  const char* name() const override { return ringlet::name(op); }

  void backward(const Tensor& grad, Gradients& grads) override { grads[0].set(through(grad)); }

  Tensor through(const Tensor& grad) {
    const auto scalar = [&](double value) { return scalar_like(value, grad); };
    switch (op) {
      case UnaryOp::neg:
        return neg(grad);
      case UnaryOp::abs:
        return mul(grad, sign(x.tensor(*this)));
      case UnaryOp::exp:
        return mul(grad, y.tensor(*this));
      case UnaryOp::log:
        return div(grad, x.tensor(*this));
      case UnaryOp::sqrt:
        return div(grad, scale(y.tensor(*this), 2));
      case UnaryOp::rsqrt:
        return mul(grad, scale(pow(y.tensor(*this), scalar(3)), -0.5));
      case UnaryOp::tanh:
        return mul(grad, sub(scalar(1), square(y.tensor(*this))));
      case UnaryOp::sigmoid:
        return mul(grad, mul(y.tensor(*this), sub(scalar(1), y.tensor(*this))));
      case UnaryOp::relu:
        return where(le(y.tensor(*this), scalar(0)), scalar(0), grad);  // NaN passes grad
      case UnaryOp::gelu:
        return mul(grad, unary(UnaryOp::gelu_derivative, x.tensor(*this)));
      case UnaryOp::sign:
        return zeros_like(grad);
      case UnaryOp::square:
        return mul(grad, scale(x.tensor(*this), 2));
      case UnaryOp::reciprocal:
        return neg(mul(grad, square(y.tensor(*this))));
      case UnaryOp::gelu_derivative:
        break;
    }
    fail("[", name(), "] has no gradient");
  }
};

inline bool saves_input(UnaryOp op) {
  return op == UnaryOp::abs || op == UnaryOp::log || op == UnaryOp::gelu || op == UnaryOp::square;
}
inline bool saves_nothing(UnaryOp op) { return op == UnaryOp::neg || op == UnaryOp::sign; }

inline Variable unary(UnaryOp op, const Variable& x) {
  const Tensor y = ringlet::unary(op, x.tensor());
  return record<UnaryNode>(y, {x}, [&](UnaryNode& node) {
    node.op = op;
    if (saves_input(op)) {
      node.x = x;
    } else if (!saves_nothing(op)) {
      node.y = y;
    }
  });
}

inline Variable neg(const Variable& x) { return unary(UnaryOp::neg, x); }
inline Variable abs(const Variable& x) { return unary(UnaryOp::abs, x); }
inline Variable exp(const Variable& x) { return unary(UnaryOp::exp, x); }
inline Variable log(const Variable& x) { return unary(UnaryOp::log, x); }
inline Variable sqrt(const Variable& x) { return unary(UnaryOp::sqrt, x); }
inline Variable rsqrt(const Variable& x) { return unary(UnaryOp::rsqrt, x); }
inline Variable tanh(const Variable& x) { return unary(UnaryOp::tanh, x); }
inline Variable sigmoid(const Variable& x) { return unary(UnaryOp::sigmoid, x); }
inline Variable relu(const Variable& x) { return unary(UnaryOp::relu, x); }
inline Variable gelu(const Variable& x) { return unary(UnaryOp::gelu, x); }
inline Variable square(const Variable& x) { return unary(UnaryOp::square, x); }
inline Variable reciprocal(const Variable& x) { return unary(UnaryOp::reciprocal, x); }

// ---- binary: gradients are summed over broadcast dimensions --------------------------------

struct BinaryNode final : Node {
  BinaryOp op;
  Saved a;
  Saved b;
  Shape a_shape;
  Shape b_shape;
  const char* name() const override { return ringlet::name(op); }

  void backward(const Tensor& grad, Gradients& grads) override {
    if (grads[0].needed()) grads[0].set(sum_to(for_a(grad), a_shape));
    if (grads[1].needed()) grads[1].set(sum_to(for_b(grad), b_shape));
  }

  // Ties of maximum and minimum share the gradient; next to a NaN both get it, as in PyTorch.
  Tensor share(const Tensor& grad, const Tensor& mine, const Tensor& other) {
    const bool max = op == BinaryOp::maximum;
    const Tensor beaten = max ? lt(mine, other) : gt(mine, other);
    const Tensor zero = scalar_like(0, grad);
    return where(beaten, zero, where(eq(mine, other), scale(grad, 0.5), grad));
  }

  Tensor for_a(const Tensor& grad) {
    switch (op) {
      case BinaryOp::add:
      case BinaryOp::sub:
        return grad;
      case BinaryOp::mul:
        return mul(grad, b.tensor(*this));
      case BinaryOp::div:
        return div(grad, b.tensor(*this));
      case BinaryOp::pow: {
        const Tensor& exponent = b.tensor(*this);
        const Tensor lower = sub(exponent, scalar_like(1, exponent));
        const Tensor slope = mul(exponent, pow(a.tensor(*this), lower));
        // x^0 is 1 also at 0, where the formula gives 0 times infinity.
        const Tensor zero = scalar_like(0, exponent);
        return where(eq(exponent, zero), zero, mul(grad, slope));
      }
      default:
        return share(grad, a.tensor(*this), b.tensor(*this));
    }
  }

  Tensor for_b(const Tensor& grad) {
    switch (op) {
      case BinaryOp::add:
        return grad;
      case BinaryOp::sub:
        return neg(grad);
      case BinaryOp::mul:
        return mul(grad, a.tensor(*this));
      case BinaryOp::div: {
        // Divided twice: the divisor's square may overflow or underflow.
        const Tensor& divisor = b.tensor(*this);
        return neg(mul(grad, div(div(a.tensor(*this), divisor), divisor)));
      }
      case BinaryOp::pow: {
        // 0^b has slope 0 in b >= 0, although its logarithm is infinite.
        const Tensor &base = a.tensor(*this), &exponent = b.tensor(*this);
        const Tensor power = mul(pow(base, exponent), ringlet::log(base));
        const Tensor zero = scalar_like(0, grad);
        const Tensor flat = mul(eq(base, zero), ge(exponent, zero));
        return mul(grad, where(flat, zero, power));
      }
      default:
        return share(grad, b.tensor(*this), a.tensor(*this));
    }
  }
};

inline Variable binary(BinaryOp op, const Variable& a, const Variable& b) {
  const Tensor y = ringlet::binary(op, a.tensor(), b.tensor());
  return record<BinaryNode>(y, {a, b}, [&](BinaryNode& node) {
    node.op = op;
    node.a_shape = a.shape();
    node.b_shape = b.shape();
    if (op == BinaryOp::add || op == BinaryOp::sub) return;
    // A product needs an operand only for the gradient of the other one.
    const bool both = op != BinaryOp::mul;
    if (both || b.requires_grad()) node.a = a;
    if (both || a.requires_grad()) node.b = b;
  });
}

inline Variable add(const Variable& a, const Variable& b) { return binary(BinaryOp::add, a, b); }
inline Variable sub(const Variable& a, const Variable& b) { return binary(BinaryOp::sub, a, b); }
inline Variable mul(const Variable& a, const Variable& b) { return binary(BinaryOp::mul, a, b); }
inline Variable div(const Variable& a, const Variable& b) { return binary(BinaryOp::div, a, b); }
inline Variable pow(const Variable& a, const Variable& b) { return binary(BinaryOp::pow, a, b); }
inline Variable maximum(const Variable& a, const Variable& b) {
  return binary(BinaryOp::maximum, a, b);
}
inline Variable minimum(const Variable& a, const Variable& b) {
  return binary(BinaryOp::minimum, a, b);
}
inline Variable pow(const Variable& x, double exponent) {
  return pow(x, Variable(scalar_like(exponent, x.tensor())));
}

inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
inline Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }
inline Variable operator-(const Variable& x) { return neg(x); }

// ---- numbers and choices ------------------------------------------------------------------

struct ScaleNode final : Node {
  double factor;
  const char* name() const override { return "scale"; }
  void backward(const Tensor& grad, Gradients& grads) override {
    grads[0].set(ringlet::scale(grad, factor));
  }
};

struct DivideNode final : Node {
  double divisor;
  const char* name() const override { return "div"; }
  void backward(const Tensor& grad, Gradients& grads) override { grads[0].set(grad / divisor); }
};

/// factor * x
inline Variable scale(const Variable& x, double factor) {
  return record<ScaleNode>(ringlet::scale(x.tensor(), factor), {x},
                           [&](ScaleNode& node) { node.factor = factor; });
}
inline Variable operator*(const Variable& x, double factor) { return scale(x, factor); }
inline Variable operator*(double factor, const Variable& x) { return scale(x, factor); }
inline Variable operator/(const Variable& x, double divisor) {
  return record<DivideNode>(x.tensor() / divisor, {x},
                            [&](DivideNode& node) { node.divisor = divisor; });
}
inline Variable operator/(double a, const Variable& b) { return scale(reciprocal(b), a); }

// A sum or difference with a number; the number's operand is undefined.
inline Variable shifted(BinaryOp op, const Tensor& y, const Variable& a, const Variable& b) {
  return record<BinaryNode>(y, {a, b}, [&](BinaryNode& node) {
    node.op = op;
    node.a_shape = node.b_shape = y.shape();
  });
}
inline Variable operator+(const Variable& x, double term) {
  return shifted(BinaryOp::add, x.tensor() + term, x, Variable());
}
inline Variable operator-(const Variable& x, double term) {
  return shifted(BinaryOp::sub, x.tensor() - term, x, Variable());
}
inline Variable operator+(double a, const Variable& b) { return b + a; }
inline Variable operator-(double a, const Variable& b) {
  return shifted(BinaryOp::sub, a - b.tensor(), Variable(), b);
}

struct WhereNode final : Node {
  Saved condition;
  Shape a_shape;
  Shape b_shape;
  const char* name() const override { return "where"; }
  void backward(const Tensor& grad, Gradients& grads) override {
    const Tensor zero = scalar_like(0, grad);
    const Tensor& mask = condition.tensor(*this);
    if (grads[0].needed()) grads[0].set(sum_to(ringlet::where(mask, grad, zero), a_shape));
    if (grads[1].needed()) grads[1].set(sum_to(ringlet::where(mask, zero, grad), b_shape));
  }
};

/// condition (u8) ? a : b
inline Variable where(const Tensor& condition, const Variable& a, const Variable& b) {
  return record<WhereNode>(ringlet::where(condition, a.tensor(), b.tensor()), {a, b},
                           [&](WhereNode& node) {
                             node.condition = condition;
                             node.a_shape = a.shape();
                             node.b_shape = b.shape();
                           });
}

}  // namespace ringlet::autograd
