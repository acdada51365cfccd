// Reductions, as in core/ops/reduce.h, with their gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/reduce.h"

namespace ringlet::autograd {

struct ReduceNode final : Node {
  ReduceOp op;
  Shape shape;  // of x
  Shape kept;   // of y, reduced dimensions kept as 1
  Saved x;      // max and min only
  Saved y;
  const char* name() const override { return "reduce"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    const Tensor wide = add(grad.view(kept), zeros(shape, grad.dtype(), grad.device()));
    if (op == ReduceOp::sum) return grads[0].set(wide);
    if (op == ReduceOp::mean) {
      const auto n = static_cast<double>(shape.numel()) / static_cast<double>(kept.numel());
      return grads[0].set(scale(wide, 1 / n));
    }
    // Equal extremes share the gradient evenly, as in PyTorch's amax and amin.
    const Tensor hit = eq(x.tensor(*this), y.tensor(*this).view(kept)).to(grad.dtype());
    grads[0].set(div(mul(wide, hit), sum_to(hit, kept)));
  }
};

inline Variable reduce(ReduceOp op, const Variable& x, std::vector<int> axes = {},
                       bool keepdim = false) {
  const Tensor y = ringlet::reduce(op, x.tensor(), axes, keepdim);
  return record<ReduceNode>(y, {x}, [&](ReduceNode& node) {
    node.op = op;
    node.shape = x.shape();
    node.kept = axes.empty() ? Shape() : x.shape();
    for (int axis : axes) node.kept[axis] = 1;
    if (axes.empty())
      for (int i = 0; i < x.dim(); ++i) node.kept = node.kept.inserted(0, 1);
    if (op == ReduceOp::max || op == ReduceOp::min) {
      node.x = x;
      node.y = y;
    }
  });
}

inline Variable sum(const Variable& x, std::vector<int> axes = {}, bool keepdim = false) {
  return reduce(ReduceOp::sum, x, std::move(axes), keepdim);
}
inline Variable mean(const Variable& x, std::vector<int> axes = {}, bool keepdim = false) {
  return reduce(ReduceOp::mean, x, std::move(axes), keepdim);
}
inline Variable max(const Variable& x, std::vector<int> axes = {}, bool keepdim = false) {
  return reduce(ReduceOp::max, x, std::move(axes), keepdim);
}
inline Variable min(const Variable& x, std::vector<int> axes = {}, bool keepdim = false) {
  return reduce(ReduceOp::min, x, std::move(axes), keepdim);
}

}  // namespace ringlet::autograd
