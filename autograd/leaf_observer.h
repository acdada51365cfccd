// The interface through which a training strategy observes backwards of its parameters.
#pragma once

#include <span>

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// Set in the state of leaves; a leaf does not keep it alive. All calls are made on
/// the thread that runs backward. A backward inside a node's backward (checkpointing) calls only
/// needs_grad_buffer and only_rows: its leaves belong to the outer one.
class LeafObserver {
 public:
  virtual ~LeafObserver() = default;
  /// Before the first node: the observer's leaves that this backward can reach, in any order.
  virtual void backward_begins(std::span<VariableState* const>) {}
  /// A gradient will be written and the leaf has no buffer for it; may set one.
  virtual void needs_grad_buffer(VariableState&) {}
  /// Only these rows of the gradient being written are not zero (i32, in any order, also repeated).
  /// Without this call, any row may be.
  virtual void only_rows(VariableState&, const Tensor&) {}
  /// The leaf's gradient is complete: its last use is done.
  virtual void grad_ready(VariableState&) {}
  /// After the last node.
  virtual void backward_ends() {}
  /// Called instead if a node or an observer threw; the caller receives the exception.
  virtual void backward_failed() noexcept {}
};

}  // namespace ringlet::autograd
