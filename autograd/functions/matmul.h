// Matrix products and linear layers, as in core/ops/matmul.h, with gradients.
#pragma once

#include <utility>

#include "ringlet/autograd/functions/beside.h"
#include "ringlet/autograd/leaf_recorder.h"
#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/matmul.h"

namespace ringlet::autograd {

struct MatmulBackward {
  Saved a, b;
  MatmulOptions options;

  void operator()(const Tensor& grad, Gradients& grads) const {
    const Tensor &to_a = a.tensor(grads), &to_b = b.tensor(grads);
    if (grads[0].needed()) for_a(grad, to_b, grads[0].sink_of(to_a));
    if (grads[1].needed()) for_b(grad, to_a, grads[1].sink_of(to_b));
  }

  // a's gradient is grad op(b)', or its transpose if a is stored transposed.
  void for_a(const Tensor& grad, const Tensor& other, Accumulator to) const {
    if (!options.trans_a)
      return matmul_into(to.out, grad, other, {false, !options.trans_b}, to.beta);
    if (other.dim() == grad.dim())
      return matmul_into(to.out, other, grad, {options.trans_b, true}, to.beta);
    const Tensor grads = matrices(grad);
    Tensor out = matrices(to.out);
    for (std::int64_t i = 0; i < grads.size(0); ++i) {
      Tensor one = out[i];
      matmul_into(one, other, grads[i], {options.trans_b, true}, to.beta);
    }
  }

  // b's gradient is op(a)' grad, or its transpose; a matrix shared by a batch gets the sum.
  void for_b(const Tensor& grad, const Tensor& other, Accumulator to) const {
    if (to.out.dim() == grad.dim()) return product_for_b(to.out, other, grad, to.beta);
    if (!options.trans_a) return product_for_b(to.out, rows(other), rows(grad), to.beta);
    const Tensor as = matrices(other), grads = matrices(grad);
    if (grads.size(0) == 0 && to.beta == 0) to.out.zero_();
    for (std::int64_t i = 0; i < grads.size(0); ++i)
      product_for_b(to.out, as[i], grads[i], i == 0 ? to.beta : 1);
  }

  void product_for_b(Tensor& out, const Tensor& other, const Tensor& grad, double beta) const {
    if (options.trans_b) {
      matmul_into(out, grad, other, {true, options.trans_a}, beta);
    } else {
      matmul_into(out, other, grad, {!options.trans_a, false}, beta);
    }
  }

  static std::int64_t batch(const Tensor& x) {
    std::int64_t count = 1;
    for (int i = 0; i < x.dim() - 2; ++i) count *= x.size(i);
    return count;
  }
  static Tensor matrices(const Tensor& x) { return x.view({batch(x), x.size(-2), x.size(-1)}); }
  static Tensor rows(const Tensor& x) { return x.view({batch(x) * x.size(-2), x.size(-1)}); }
};

inline Variable matmul(const Variable& a, const Variable& b, MatmulOptions options = {}) {
  return record("matmul", ringlet::matmul(a.tensor(), b.tensor(), options), {a, b},
                MatmulBackward{a, b, options});
}

// ---- linear layers ------------------------------------------------------------------------

namespace detail {

// Weights stay unchanged if nothing is recorded, except in a checkpointed segment's first run.
inline Weight weight_use() {
  return grad_enabled() || LeafRecorder::active() ? Weight::changing : Weight::kept;
}

/// `pre` (.., out) is defined if GELU follows.
inline Variable record_linear(const Tensor& y, const Tensor& pre, const Variable& x,
                              const Variable& weight, const Variable& bias) {
  const DType bias_dtype = bias ? bias.dtype() : DType::f32;
  auto backward = [x = Saved(x), weight = Saved(weight), pre, bias_dtype](const Tensor& grad_y,
                                                                          Gradients& grads) {
    const Tensor& w = weight.tensor(grads);
    Accumulator to_bias;
    if (grads[2].needed()) to_bias = grads[2].sink({w.size(0)}, bias_dtype, w.device());
    const Tensor grad = pre ? gelu_backward(grad_y, pre, std::exchange(to_bias, {})) : grad_y;
    const Tensor& input = x.tensor(grads);
    const std::int64_t in = w.size(1), out = w.size(0);
    const std::int64_t rows = out > 0 ? grad.numel() / out : in > 0 ? input.numel() / in : 0;
    const Tensor rows_grad = grad.view({rows, out}), rows_x = input.view({rows, in});
    const Accumulator to_weight = grads[1].sink_of(w);
    run_beside(grads, 1, {rows_grad, rows_x},
               [&] { linear_gradients_into(to_weight, to_bias, rows_grad, rows_x); });
    if (!grads[0].needed()) return;
    const Accumulator to = grads[0].sink_of(input);
    Tensor rows_to = to.out.view({rows, in});
    matmul_into(rows_to, rows_grad, w, {}, to.beta);
  };
  return record(pre ? "linear_gelu" : "linear", y, {x, weight, bias}, std::move(backward));
}

}  // namespace detail

/// x (.., in) weight (out, in)' + bias (out); bias may be undefined.
inline Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {}) {
  const Tensor b = bias ? bias.tensor() : Tensor();
  return detail::record_linear(
      ringlet::linear(x.tensor(), weight.tensor(), b, detail::weight_use()), {}, x, weight, bias);
}

/// linear(x, weight, bias), for a next function that computes the gradient of the bias: the sum of
/// the rows of the result's gradient. If `open_bias` is not null it is set to the bias, and
/// backward leaves that gradient out.
inline Variable linear(const Variable& x, const Variable& weight, const Variable& bias,
                       Variable* open_bias) {
  if (!open_bias || !bias) return linear(x, weight, bias);
  *open_bias = bias;
  return linear(x, weight, bias.detach());
}

/// gelu(linear(x, weight, bias)), in one pass.
inline Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias = {}) {
  const Tensor b = bias ? bias.tensor() : Tensor();
  Tensor pre;
  const Tensor y = ringlet::linear_gelu(x.tensor(), weight.tensor(), b, pre, detail::weight_use());
  return detail::record_linear(y, pre, x, weight, bias);
}

}  // namespace ringlet::autograd
