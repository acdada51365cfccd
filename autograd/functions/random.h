// Dropout, as in core/ops/random.h, with its gradient.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/random.h"

namespace ringlet::autograd {

struct DropoutNode final : Node {
  DropoutKey key;
  Tensor positions;  // (R, 2) or undefined
  const char* name() const override { return "dropout"; }

  // The mask is drawn again, not stored.
  void backward(const Tensor& grad, Gradients& grads) override {
    grads[0].set(ringlet::dropout(grad, key, positions));
  }
};

/// Returns x itself if p is 0.
inline Variable dropout(const Variable& x, const DropoutKey& key, const Tensor& positions = {}) {
  if (key.p == 0) return x;
  return record<DropoutNode>(ringlet::dropout(x.tensor(), key, positions), {x},
                             [&](DropoutNode& node) {
                               node.key = key;
                               node.positions = positions;
                             });
}

}  // namespace ringlet::autograd
