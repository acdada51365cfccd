// The interface through which a training strategy observes backwards of its parameters.
#pragma once

#include <atomic>
#include <span>

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// Set in the state of leaves; a leaf does not keep it alive. All calls are made on the thread that
/// runs backward. Several observers begin and end in the order of their construction. A backward
/// inside a node's backward (checkpointing) calls only needs_grad_buffer and only_rows.
class LeafObserver {
 public:
  virtual ~LeafObserver() = default;
  std::uint64_t sequence() const { return sequence_; }
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

 private:
  static inline std::atomic<std::uint64_t> constructed_{0};
  std::uint64_t sequence_ = ++constructed_;
};

}  // namespace ringlet::autograd
