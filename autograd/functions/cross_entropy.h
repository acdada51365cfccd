// Cross-entropy, as in core/ops/cross_entropy.h, with its gradient.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/cross_entropy.h"

namespace ringlet::autograd {

struct CrossEntropyNode final : Node {
  Saved logits;  // (R, C)
  Saved labels;  // (R)
  Tensor lse;    // (R, 2)
  double divisor;
  const char* name() const override { return "cross_entropy"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    grads[0].set(
        cross_entropy_backward(grad, logits.tensor(*this), labels.tensor(*this), lse, divisor));
  }
};

/// logits (R, C), labels (R) i64 or i32 -> (): the rows' sum divided by `divisor`.
inline Variable cross_entropy(const Variable& logits, const Tensor& labels, double divisor) {
  const CrossEntropyOutput out = ringlet::cross_entropy(logits.tensor(), labels, divisor);
  return record<CrossEntropyNode>(out.loss, {logits}, [&](CrossEntropyNode& node) {
    node.logits = logits;
    node.labels = labels;
    node.lse = out.lse;
    node.divisor = divisor;
  });
}

}  // namespace ringlet::autograd
