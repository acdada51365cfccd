// Cross-entropy, as in core/ops/cross_entropy.h, with its gradient.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/cross_entropy.h"

namespace ringlet::autograd {

/// logits (R, C), labels (R) i64 or i32 -> (): the rows' sum divided by `divisor`.
inline Variable cross_entropy(const Variable& logits, const Tensor& labels, double divisor) {
  const CrossEntropyOutput out = ringlet::cross_entropy(logits.tensor(), labels, divisor);
  return record("cross_entropy", out.loss, {logits},
                [logits = Saved(logits), labels = Saved(labels), lse = out.lse, divisor](
                    const Tensor& grad, Gradients& grads) {
                  grads[0].set(cross_entropy_backward(grad, logits.tensor(grads),
                                                      labels.tensor(grads), lse, divisor));
                });
}

}  // namespace ringlet::autograd
