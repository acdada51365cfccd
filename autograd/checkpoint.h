// Activation checkpointing: stores a segment's input and recomputes the rest in backward.
#pragma once

#include <functional>

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// segment(x), without storing what its functions would save. Backward runs it again (dropout masks
/// repeat, as they are counter-based) and passes gradients to x and to every leaf it used. The
/// ready hooks of those leaves wait for all their uses, as without checkpointing.
Variable checkpoint(const std::function<Variable(const Variable&)>& segment, const Variable& x);

}  // namespace ringlet::autograd
