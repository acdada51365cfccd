// Layer normalisation, alone and fused, as in core/ops/layer_norm.h, with gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/layer_norm.h"

namespace ringlet::autograd {

struct LayerNormNode final : Node {
  Saved x;       // (.., C)
  Saved weight;  // (C)
  Tensor mean;   // (R)
  Tensor rstd;   // (R)
  const char* name() const override { return "layer_norm"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    const Tensor& w = weight.tensor(*this);
    const Accumulator to_weight = grads[1].sink_of(w), to_bias = grads[2].sink_of(w);
    Tensor grad_x = ringlet::layer_norm_backward(grad, x.tensor(*this), mean, rstd, w,
                                                 grads[0].needed(), to_weight, to_bias);
    if (grad_x) grads[0].set(std::move(grad_x));
  }
};

/// x (.., C); weight and bias (C).
inline Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias,
                           double eps) {
  const LayerNormOutput out = ringlet::layer_norm(x.tensor(), weight.tensor(), bias.tensor(), eps);
  return record<LayerNormNode>(out.y, {x, weight, bias}, [&](LayerNormNode& node) {
    node.x = x;
    node.weight = weight;
    node.mean = out.mean;
    node.rstd = out.rstd;
  });
}

struct ResidualLayerNormNode final : Node {
  Saved weight;       // (C)
  Tensor normalized;  // (.., C)
  Tensor rstd;        // (R)
  DropoutKey key;
  Tensor positions;  // (R, 2) or undefined
  const char* name() const override { return "residual_dropout_layer_norm"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    const Tensor& w = weight.tensor(*this);
    const Accumulator to_weight = grads[2].sink_of(w), to_bias = grads[3].sink_of(w);
    ResidualLayerNormGradients out = ringlet::residual_dropout_layer_norm_backward(
        grad, normalized, rstd, w, key, positions, to_weight, to_bias);
    if (grads[0].needed()) grads[0].set(std::move(out.x));
    if (grads[1].needed()) grads[1].set(std::move(out.residual));
  }
};

/// layer_norm(residual + dropout(x)); `positions` (R, 2) i32 as for dropout().
inline Variable residual_dropout_layer_norm(const Variable& x, const Variable& residual,
                                            const DropoutKey& key, const Tensor& positions,
                                            const Variable& weight, const Variable& bias,
                                            double eps) {
  const ResidualLayerNormOutput out = ringlet::residual_dropout_layer_norm(
      x.tensor(), residual.tensor(), key, positions, weight.tensor(), bias.tensor(), eps);
  return record<ResidualLayerNormNode>(out.y, {x, residual, weight, bias},
                                       [&](ResidualLayerNormNode& node) {
                                         node.weight = weight;
                                         node.normalized = out.normalized;
                                         node.rstd = out.rstd;
                                         node.key = key;
                                         node.positions = positions;
                                       });
}

}  // namespace ringlet::autograd
