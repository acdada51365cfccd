// Max pooling, as in core/ops/max_pool.h, with its gradient.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/max_pool.h"

namespace ringlet::autograd {

struct MaxPool2dNode final : Node {
  Tensor indices;  // of the largest elements
  Shape shape;     // of x
  const char* name() const override { return "max_pool2d"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    grads[0].set(ringlet::max_pool2d_backward(grad, indices, shape));
  }
};

/// x (B, C, H, W) -> (B, C, oh, ow); stride 0 means kernel.
inline Variable max_pool2d(const Variable& x, std::int64_t kernel, std::int64_t stride = 0) {
  const MaxPool2dOutput out = ringlet::max_pool2d(x.tensor(), kernel, stride);
  return record<MaxPool2dNode>(out.y, {x}, [&](MaxPool2dNode& node) {
    node.indices = out.indices;
    node.shape = x.shape();
  });
}

}  // namespace ringlet::autograd
