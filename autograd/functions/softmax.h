// softmax and log_softmax over the last axis, as in core/ops/softmax.h, with gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/softmax.h"

namespace ringlet::autograd {

struct SoftmaxNode final : Node {
  Saved y;
  bool log;
  const char* name() const override { return log ? "log_softmax" : "softmax"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    const Tensor& out = y.tensor(*this);
    grads[0].set(log ? log_softmax_backward(grad, out) : softmax_backward(grad, out));
  }
};

inline Variable softmax(const Variable& x) {
  const Tensor y = ringlet::softmax(x.tensor());
  return record<SoftmaxNode>(y, {x}, [&](SoftmaxNode& node) {
    node.y = y;
    node.log = false;
  });
}

inline Variable log_softmax(const Variable& x) {
  const Tensor y = ringlet::log_softmax(x.tensor());
  return record<SoftmaxNode>(y, {x}, [&](SoftmaxNode& node) {
    node.y = y;
    node.log = true;
  });
}

}  // namespace ringlet::autograd
