// The sum of a parameter's gradients over ranks or devices, through the backwards of a step.
#pragma once

#include <utility>

#include "ringlet/autograd/variable.h"
#include "ringlet/core/ops/elementwise.h"

namespace ringlet::train {

/// Each backward's gradients begin with zero and are summed separately. The sum of earlier
/// backwards is stashed meanwhile, and added afterwards.
struct GradientSum {
  autograd::VariableState* state;
  bool reduced = false;  // its gradient, or its shard, is the sum over all
  Tensor earlier = {};   // the stashed sum

  /// Before a backward that may write the gradient.
  void stash() {
    if (!state->has_grad || !std::exchange(reduced, false)) return;
    earlier = state->grad_buffer.clone();
    state->has_grad = false;
  }
  /// After one that did not, or that threw.
  void restore() {
    reduced = state->has_grad = earlier.defined();
    if (reduced) state->grad_buffer.copy_(std::exchange(earlier, Tensor()));
  }
  /// Once the gradient is the sum of the latest backward.
  void add_earlier() {
    reduced = true;
    if (earlier.defined()) axpby(state->grad_buffer, 1, std::exchange(earlier, Tensor()), 1);
  }
  /// After zero_grad.
  void forget() {
    reduced = false;
    earlier = Tensor();
  }
};

}  // namespace ringlet::train
