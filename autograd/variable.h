// Variable: a tensor with the node that made it, for backward. A Variable is a shared handle:
// copies refer to the same state. core does not depend on autograd.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::nn {
struct LeafSlice;
}

namespace ringlet::autograd {

class Node;
struct VariableState;

/// A hook on a leaf; it is removed when the last copy of this is released.
using HookHandle = std::shared_ptr<const std::function<void()>>;

class Variable {
 public:
  Variable() = default;  // undefined: an optional input that is absent
  /// A leaf. Only floating tensors may require a gradient.
  Variable(Tensor data, bool requires_grad = false);

  bool defined() const { return state_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const Tensor& tensor() const;
  const Shape& shape() const { return tensor().shape(); }
  std::int64_t size(int i) const { return tensor().size(i); }
  int dim() const { return tensor().dim(); }
  std::int64_t numel() const { return tensor().numel(); }
  DType dtype() const { return tensor().dtype(); }
  Device device() const { return tensor().device(); }
  template <class T = float>
  T item() const {
    return tensor().template item<T>();
  }

  bool requires_grad() const;
  bool is_leaf() const;
  /// The same data, detached from the graph.
  Variable detach() const { return Variable(tensor()); }

  /// Runs backward from here and adds to the gradient of every leaf that requires one. `grad` has
  /// this variable's shape; it may be omitted for a single element (then it is 1). The graph is
  /// released during the run: a second call throws, unless retain_graph.
  void backward(const Tensor& grad = {}, bool retain_graph = false) const;

  // ---- leaves only ----

  /// The gradient; undefined until a backward has reached this leaf.
  Tensor grad() const;
  /// Discards the gradient; the next one is written, not added.
  void zero_grad() const;
  /// Sets the destination of later gradients (same shape; e.g. a view into an arena).
  void set_grad_buffer(Tensor buffer) const;
  const Tensor& grad_buffer() const;
  /// Sets other data of the same shape; graphs that saved this leaf read the new data.
  void set_tensor(Tensor data) const;
  void set_requires_grad(bool requires_grad) const;
  /// The tensor for writing, e.g. in an optimizer.
  Tensor& mutable_tensor() const;
  const std::string& name() const;
  void set_name(std::string name) const;
  /// `hook` runs once per backward, when this leaf's gradient is complete: after the last of its
  /// uses, which backward counts in advance.
  [[nodiscard]] HookHandle register_ready_hook(std::function<void()> hook) const;

  const std::shared_ptr<VariableState>& state() const { return state_; }
  friend bool operator==(const Variable& a, const Variable& b) { return a.state_ == b.state_; }

 private:
  std::shared_ptr<VariableState> state_;
};

/// Observes the backwards of a training strategy's parameters. Set in the state of leaves, which do
/// not keep it alive. All calls are made on the thread that runs backward. Several observers begin
/// and end in the order of their construction. A backward inside a node's backward (checkpointing)
/// calls only needs_grad_buffer and only_rows.
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

/// The state behind a handle; for the engine and for nodes.
struct VariableState {
  Tensor data;
  bool requires_grad = false;
  std::shared_ptr<Node> node;  // the node that made it; empty for a leaf

  // leaves
  std::string name;
  Tensor grad_buffer;
  bool has_grad = false;  // grad_buffer holds a gradient: the next one is added
  bool dense = false;     // a write to it did not declare its rows (for observers)
  bool applied = false;   // an optimizer's step has used it; no write since
  bool partial = false;   // one device's or rank's part of a sum still to be computed
  std::vector<std::weak_ptr<const std::function<void()>>> hooks;
  std::weak_ptr<LeafObserver> observer;
  std::shared_ptr<const nn::LeafSlice> slice;  // the whole tensor that this is a slice of, or null
};

struct BackwardOptions {
  bool retain_graph = false;
  /// Whether to call ready hooks; a run inside a node's backward leaves them to the outer run.
  bool fire_hooks = true;
};
/// See Variable::backward. Nodes run in the reverse order of their creation, each once, when its
/// gradient is complete. Neither the traversal nor the release of the graph recurses.
void run_backward(const Variable& root, const Tensor& grad, BackwardOptions options);

/// Recording is on by default, per thread.
bool grad_enabled();
/// Turns recording on this thread on or off for a scope.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};
/// Turns recording on this thread off for a scope.
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};

/// The tensor, then "requires_grad" for a leaf or "grad_fn=" and the node's name.
std::ostream& operator<<(std::ostream& out, const Variable& variable);

}  // namespace ringlet::autograd

namespace ringlet {
using autograd::Variable;
}
