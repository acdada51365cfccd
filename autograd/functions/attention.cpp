// Attention and pooling of packed sentences, with gradients.
#include "ringlet/autograd/functions.h"

#include "ringlet/autograd/node.h"

namespace ringlet::autograd {

Variable attention(const Variable& qkv, const Variable& relative_bias, const Tensor& cu_seqlens,
                   AttentionOptions options) {
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

Variable pooling(PoolingMode mode, const Variable& x, const Tensor& cu_seqlens,
                 const Tensor& lengths) {
  const PoolingOutput out = ringlet::pooling(mode, x.tensor(), cu_seqlens, lengths);
  auto backward = [mode, argmax = out.argmax, cu_seqlens, lengths, tokens = x.size(0),
                   dtype = x.dtype()](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::pooling_backward(mode, grad, argmax, cu_seqlens, tokens, dtype, lengths));
  };
  return record("pooling", out.y, {x}, std::move(backward));
}

}  // namespace ringlet::autograd
