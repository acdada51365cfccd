// Activation checkpointing: keep a segment's input, recompute the rest when backward comes.
#pragma once

#include <functional>

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// segment(x), without keeping what its functions would save. Backward runs it again (dropout
/// masks repeat, being counted, not drawn) and passes gradients to x and to every leaf it used;
/// those leaves' ready hooks wait for all their uses, as without checkpointing.
Variable checkpoint(const std::function<Variable(const Variable&)>& segment, const Variable& x);

}  // namespace ringlet::autograd
