// Max pooling, as in core/ops/max_pool.h, with its gradient.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/max_pool.h"

namespace ringlet::autograd {

/// x (B, C, H, W) -> (B, C, oh, ow); stride 0 means kernel.
inline Variable max_pool2d(const Variable& x, std::int64_t kernel, std::int64_t stride = 0) {
  const MaxPool2dOutput out = ringlet::max_pool2d(x.tensor(), kernel, stride);
  auto backward = [indices = out.indices, shape = x.shape()](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::max_pool2d_backward(grad, indices, shape));
  };
  return record("max_pool2d", out.y, {x}, std::move(backward));
}

}  // namespace ringlet::autograd
