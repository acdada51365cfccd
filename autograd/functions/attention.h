// Self-attention over packed sentences, as in core/ops/attention.h, with gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/attention.h"

namespace ringlet::autograd {

/// qkv (T, 3 heads d), relative_bias (32, heads) or undefined -> (T, heads d). The other options
/// are those of core's attention; the `relative_bias` in them is ignored.
inline Variable attention(const Variable& qkv, const Variable& relative_bias,
                          const Tensor& cu_seqlens, AttentionOptions options) {
  options.relative_bias = relative_bias ? relative_bias.tensor() : Tensor();
  const AttentionOutput out = ringlet::attention(qkv.tensor(), cu_seqlens, options);
  options.relative_bias = Tensor();
  auto backward = [qkv = Saved(qkv), bias = Saved(relative_bias), y = Saved(out.out), lse = out.lse,
                   cu_seqlens, options](const Tensor& grad, Gradients& grads) {
    AttentionOptions now = options;
    if (bias.defined()) now.relative_bias = bias.tensor(grads);
    Tensor grad_qkv =
        ringlet::attention_backward(grad, qkv.tensor(grads), {y.tensor(grads), lse}, cu_seqlens,
                                    now, grads[1].sink_of(now.relative_bias));
    if (grads[0].needed()) grads[0].set(std::move(grad_qkv));
  };
  return record("attention", out.out, {qkv, relative_bias}, std::move(backward));
}

}  // namespace ringlet::autograd
