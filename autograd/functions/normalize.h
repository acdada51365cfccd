// Rows scaled to length 1, as in core/ops/normalize.h, with the gradient.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/normalize.h"

namespace ringlet::autograd {

/// x / max(|x|, eps) along the last dimension.
inline Variable normalize(const Variable& x, double eps = kNormalizeEps) {
  const NormalizeOutput out = ringlet::normalize(x.tensor(), eps);
  auto backward = [x = Saved(x), norm = out.norm, eps](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::normalize_backward(grad, x.tensor(grads), norm, eps));
  };
  return record("normalize", out.y, {x}, std::move(backward));
}

}  // namespace ringlet::autograd
