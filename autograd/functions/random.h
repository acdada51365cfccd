// Dropout, as in core/ops/random.h, with its gradient.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/random.h"

namespace ringlet::autograd {

/// Returns x itself if p is 0.
inline Variable dropout(const Variable& x, const DropoutKey& key, const Tensor& positions = {}) {
  if (key.p == 0) return x;
  return record("dropout", ringlet::dropout(x.tensor(), key, positions), {x},
                [key, positions](const Tensor& grad, Gradients& grads) {
                  // The mask is drawn again, not stored.
                  grads[0].set(ringlet::dropout(grad, key, positions));
                });
}

}  // namespace ringlet::autograd
