// How a training strategy follows the backwards that reach its parameters.
#pragma once

#include <span>

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// Set on leaves with Variable::set_observer; a leaf does not keep it alive. All calls come on the
/// thread that runs backward. A backward inside a node's backward (checkpointing) asks for buffers
/// alone: its leaves belong to the outer one.
class LeafObserver {
 public:
  virtual ~LeafObserver() = default;
  /// Before the first node: the observer's leaves that this backward can reach, in no order.
  virtual void backward_begins(std::span<VariableState* const>) {}
  /// A gradient is about to be written and the leaf has no buffer for it; may set one.
  virtual void needs_grad_buffer(VariableState&) {}
  /// Of a gradient that is being written, only these rows (i32, in any order, some twice) are not
  /// zero; without this call, any may be.
  virtual void only_rows(VariableState&, const Tensor&) {}
  /// The leaf's gradient is complete: its last use is done.
  virtual void grad_ready(VariableState&) {}
  /// After the last node.
  virtual void backward_ends() {}
  /// Instead, when a node or an observer threw; the exception goes on to the caller.
  virtual void backward_failed() noexcept {}
};

}  // namespace ringlet::autograd
