// Convolution, as in core/ops/convolution.h, with its gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/convolution.h"

namespace ringlet::autograd {

struct Conv2dNode final : Node {
  Saved x;       // (B, C, H, W)
  Saved weight;  // (O, C, kh, kw)
  Saved bias;    // (O) or undefined
  Conv2dOptions options;
  const char* name() const override { return "conv2d"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    const Tensor& w = weight.tensor(*this);
    if (grads[0].needed())
      grads[0].set(ringlet::conv2d_backward_input(grad, w, x.tensor(*this).shape(), options));
    if (grads[1].needed())
      ringlet::conv2d_backward_weight(grads[1].sink_of(w), grad, x.tensor(*this), options);
    if (grads[2].needed())
      ringlet::conv2d_backward_bias(grads[2].sink_of(bias.tensor(*this)), grad);
  }
};

/// x (B, C, H, W), weight (O, C, kh, kw), bias (O) or undefined -> (B, O, oh, ow).
inline Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                       const Conv2dOptions& options = {}) {
  const Tensor y =
      ringlet::conv2d(x.tensor(), weight.tensor(), bias ? bias.tensor() : Tensor(), options);
  return record<Conv2dNode>(y, {x, weight, bias}, [&](Conv2dNode& node) {
    node.x = x;
    node.weight = weight;
    if (bias) node.bias = bias;
    node.options = options;
  });
}

}  // namespace ringlet::autograd
