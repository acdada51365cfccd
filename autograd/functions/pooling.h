// Pooling of packed sentences, as in core/ops/pooling.h, with gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/pooling.h"

namespace ringlet::autograd {

/// x (T, C), cu_seqlens (S + 1), lengths (S) or undefined -> (S, C) f32 (f64).
inline Variable pooling(PoolingMode mode, const Variable& x, const Tensor& cu_seqlens,
                        const Tensor& lengths = {}) {
  const PoolingOutput out = ringlet::pooling(mode, x.tensor(), cu_seqlens, lengths);
  auto backward = [mode, argmax = out.argmax, cu_seqlens, lengths, tokens = x.size(0),
                   dtype = x.dtype()](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::pooling_backward(mode, grad, argmax, cu_seqlens, tokens, dtype, lengths));
  };
  return record("pooling", out.y, {x}, std::move(backward));
}

}  // namespace ringlet::autograd
