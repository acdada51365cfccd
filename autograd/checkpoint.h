// Activation checkpointing: stores a segment's inputs and recomputes the rest in backward.
#pragma once

#include <functional>
#include <vector>

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// segment(inputs), without storing what its functions would save. Backward runs it again (dropout
/// masks repeat, as they are counter-based) and passes gradients to the inputs and to every leaf it
/// used. The ready hooks of those leaves wait for all their uses, as without checkpointing. An
/// inner variable that requires a gradient must be among the inputs.
Variable checkpoint(const std::function<Variable(const std::vector<Variable>&)>& segment,
                    const std::vector<Variable>& inputs);
inline Variable checkpoint(const std::function<Variable(const Variable&)>& segment,
                           const Variable& x) {
  return checkpoint([segment](const std::vector<Variable>& inputs) { return segment(inputs[0]); },
                    std::vector{x});
}

}  // namespace ringlet::autograd
