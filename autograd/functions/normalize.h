// Rows scaled to length 1, as in core/ops/normalize.h, with the gradient.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/normalize.h"

namespace ringlet::autograd {

struct NormalizeNode final : Node {
  Saved x;      // (.., C)
  Tensor norm;  // (R)
  double eps;
  const char* name() const override { return "normalize"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    grads[0].set(ringlet::normalize_backward(grad, x.tensor(*this), norm, eps));
  }
};

/// x / max(|x|, eps) along the last dimension.
inline Variable normalize(const Variable& x, double eps = kNormalizeEps) {
  const NormalizeOutput out = ringlet::normalize(x.tensor(), eps);
  return record<NormalizeNode>(out.y, {x}, [&](NormalizeNode& node) {
    node.x = x;
    node.norm = out.norm;
    node.eps = eps;
  });
}

}  // namespace ringlet::autograd
