// Pooling of packed sentences, as in core/ops/pooling.h, with gradients.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/pooling.h"

namespace ringlet::autograd {

struct PoolingNode final : Node {
  PoolingMode mode;
  Tensor argmax;      // (S, C), max only
  Tensor cu_seqlens;  // (S + 1)
  Tensor lengths;     // (S) or undefined
  std::int64_t tokens;
  DType dtype;
  const char* name() const override { return "pooling"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    grads[0].set(ringlet::pooling_backward(mode, grad, argmax, cu_seqlens, tokens, dtype, lengths));
  }
};

/// x (T, C), cu_seqlens (S + 1), lengths (S) or undefined -> (S, C) f32 (f64).
inline Variable pooling(PoolingMode mode, const Variable& x, const Tensor& cu_seqlens,
                        const Tensor& lengths = {}) {
  const PoolingOutput out = ringlet::pooling(mode, x.tensor(), cu_seqlens, lengths);
  return record<PoolingNode>(out.y, {x}, [&](PoolingNode& node) {
    node.mode = mode;
    node.argmax = out.argmax;
    node.cu_seqlens = cu_seqlens;
    node.lengths = lengths;
    node.tokens = x.size(0);
    node.dtype = x.dtype();
  });
}
inline Variable mean_pooling(const Variable& x, const Tensor& cu_seqlens) {
  return pooling(PoolingMode::mean, x, cu_seqlens);
}
inline Variable cls_pooling(const Variable& x, const Tensor& cu_seqlens) {
  return pooling(PoolingMode::cls, x, cu_seqlens);
}
inline Variable max_pooling(const Variable& x, const Tensor& cu_seqlens) {
  return pooling(PoolingMode::max, x, cu_seqlens);
}

}  // namespace ringlet::autograd
