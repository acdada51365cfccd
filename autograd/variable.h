// Variable: a tensor with the node that made it, for backward. A Variable is a shared handle:
// copies refer to the same state. core does not depend on autograd.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::autograd {

class LeafObserver;
class Node;
struct VariableState;

/// Removes its hook in the destructor.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<VariableState> state, std::uint64_t id)
      : state_(std::move(state)), id_(id) {}
  HookHandle(HookHandle&& other) noexcept { *this = std::move(other); }
  HookHandle& operator=(HookHandle&& other) noexcept;
  ~HookHandle() { remove(); }
  void remove();

 private:
  std::weak_ptr<VariableState> state_;
  std::uint64_t id_ = 0;
};

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
  /// At most one; see leaf_observer.h.
  void set_observer(std::weak_ptr<LeafObserver> observer) const;

  const std::shared_ptr<VariableState>& state() const { return state_; }
  friend bool operator==(const Variable& a, const Variable& b) { return a.state_ == b.state_; }

 private:
  std::shared_ptr<VariableState> state_;
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
  struct Hook {
    std::uint64_t id;
    std::function<void()> call;
  };
  std::vector<Hook> hooks;
  std::uint64_t next_hook = 1;
  std::weak_ptr<LeafObserver> observer;
};

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

/// During its lifetime, collects the leaves that functions use on this thread, recorded or not.
class LeafRecorder {
 public:
  LeafRecorder();
  ~LeafRecorder();
  LeafRecorder(const LeafRecorder&) = delete;
  LeafRecorder& operator=(const LeafRecorder&) = delete;
  const std::vector<Variable>& leaves() const { return leaves_; }
  static void note(const Variable& input);
  /// Whether there is one on this thread: it runs a checkpointed segment, which backward repeats.
  static bool active();

 private:
  std::vector<Variable> leaves_;
  LeafRecorder* previous_;
};

/// The tensor, then "requires_grad" for a leaf or "grad_fn=" and the node's name.
std::ostream& operator<<(std::ostream& out, const Variable& variable);

}  // namespace ringlet::autograd

namespace ringlet {
using autograd::Variable;
}
