// Dropout, counted by position: the mask depends on the seed, the training step, this module's site
// in the model and each row's id. It is the same on every rank and device.
#pragma once

#include "ringlet/autograd/functions/random.h"
#include "ringlet/autograd/functions/view.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

class Dropout final : public Layer<Dropout> {
 public:
  explicit Dropout(double p = 0.5) : p(p) {}
  const char* kind() const override { return "Dropout"; }

  /// x (R, ..): R rows of one example each. `positions` (R, 2) i32 identifies the rows (example in
  /// the global batch, 0); if undefined, rows count from 0.
  Variable forward(const Variable& x, const Tensor& positions = {}) {
    if (!training() || p == 0) return x;
    const std::int64_t rows = x.dim() > 0 ? x.size(0) : 1;
    const Variable flat = autograd::view(x, {rows, -1});
    return autograd::view(
        autograd::dropout(flat, default_generator().dropout_key(static_cast<float>(p), site()),
                          positions),
        x.shape());
  }

  double p;
};

}  // namespace ringlet::nn
