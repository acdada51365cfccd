// Layer normalisation, alone and fused, as in core/ops/layer_norm.h, with gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/layer_norm.h"

namespace ringlet::autograd {

/// x (.., C); weight and bias (C).
inline Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias,
                           double eps) {
  const LayerNormOutput out = ringlet::layer_norm(x.tensor(), weight.tensor(), bias.tensor(), eps);
  auto backward = [x = Saved(x), weight = Saved(weight), mean = out.mean, rstd = out.rstd](
                      const Tensor& grad, Gradients& grads) {
    const Tensor& w = weight.tensor(grads);
    const Accumulator to_weight = grads[1].sink_of(w), to_bias = grads[2].sink_of(w);
    Tensor grad_x = ringlet::layer_norm_backward(grad, x.tensor(grads), mean, rstd, w,
                                                 grads[0].needed(), to_weight, to_bias);
    if (grad_x) grads[0].set(std::move(grad_x));
  };
  return record("layer_norm", out.y, {x, weight, bias}, std::move(backward));
}

/// layer_norm(residual + dropout(x)); `positions` (R, 2) i32 as for dropout(). `x_bias` (C), which
/// may be undefined, is in x already (linear's open_bias). Backward computes its gradient.
inline Variable residual_dropout_layer_norm(const Variable& x, const Variable& residual,
                                            const DropoutKey& key, const Tensor& positions,
                                            const Variable& weight, const Variable& bias,
                                            double eps, const Variable& x_bias = {}) {
  const ResidualLayerNormOutput out = ringlet::residual_dropout_layer_norm(
      x.tensor(), residual.tensor(), key, positions, weight.tensor(), bias.tensor(), eps);
  auto backward = [weight = Saved(weight), normalized = out.normalized, rstd = out.rstd, key,
                   positions](const Tensor& grad, Gradients& grads) {
    const Tensor& w = weight.tensor(grads);
    const Accumulator to_weight = grads[2].sink_of(w), to_bias = grads[3].sink_of(w);
    const Accumulator to_x_bias = grads[4].sink_of(w);
    ResidualLayerNormGradients both = ringlet::residual_dropout_layer_norm_backward(
        grad, normalized, rstd, w, key, positions, to_weight, to_bias, to_x_bias);
    if (grads[0].needed()) grads[0].set(std::move(both.x));
    if (grads[1].needed()) grads[1].set(std::move(both.residual));
  };
  return record("residual_dropout_layer_norm", out.y, {x, residual, weight, bias, x_bias},
                std::move(backward));
}

}  // namespace ringlet::autograd
