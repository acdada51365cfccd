// Self-attention over packed sentences, as in core/ops/attention.h, with gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/attention.h"

namespace ringlet::autograd {

struct AttentionNode final : Node {
  Saved qkv;            // (T, 3 heads d)
  Saved relative_bias;  // (32, heads) or undefined
  Tensor lse;           // (heads, T)
  Tensor cu_seqlens;    // (S + 1)
  AttentionOptions options;
  const char* name() const override { return "attention"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    AttentionOptions now = options;
    if (relative_bias.defined()) now.relative_bias = relative_bias.tensor(*this);
    Tensor grad_qkv = ringlet::attention_backward(grad, qkv.tensor(*this), lse, cu_seqlens, now,
                                                  grads[1].sink_of(now.relative_bias));
    if (grads[0].needed()) grads[0].set(std::move(grad_qkv));
  }
};

/// qkv (T, 3 heads d), relative_bias (32, heads) or undefined -> (T, heads d). The other options
/// are those of core's attention; the `relative_bias` in them is ignored.
inline Variable attention(const Variable& qkv, const Variable& relative_bias,
                          const Tensor& cu_seqlens, AttentionOptions options) {
  options.relative_bias = relative_bias ? relative_bias.tensor() : Tensor();
  const AttentionOutput out = ringlet::attention(qkv.tensor(), cu_seqlens, options);
  options.relative_bias = Tensor();
  return record<AttentionNode>(out.out, {qkv, relative_bias}, [&](AttentionNode& node) {
    node.qkv = qkv;
    if (relative_bias) node.relative_bias = relative_bias;
    node.lse = out.lse;
    node.cu_seqlens = cu_seqlens;
    node.options = options;
  });
}

}  // namespace ringlet::autograd
