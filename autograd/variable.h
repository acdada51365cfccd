// Variable: a tensor that knows how it was made, so that backward can reach it. A Variable is a
// shared handle; copies name the same thing. Core stays free of all this.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ringlet/core/tensor.h"

namespace ringlet::autograd {

class LeafObserver;
class Node;
struct VariableState;

/// Unregisters its hook when it goes.
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
  /// The same data, cut off from the graph.
  Variable detach() const { return Variable(tensor()); }

  /// Runs backward from here and adds to the gradient of every leaf that requires one. `grad`
  /// has this variable's shape; it may be left out for a single element (then it is 1). The graph
  /// is released as it is used: a second call throws, unless retain_graph.
  void backward(const Tensor& grad = {}, bool retain_graph = false) const;

  // ---- leaves only ----

  /// The gradient, undefined until a backward reached this leaf.
  Tensor grad() const;
  /// Forgets the gradient; the next one is written, not added.
  void zero_grad() const;
  /// Where gradients are written from now on (same shape; e.g. a view into an arena).
  void set_grad_buffer(Tensor buffer) const;
  const Tensor& grad_buffer() const;
  /// Points the handle at other bytes of the same shape; graphs that saved it read the new ones.
  void set_tensor(Tensor data) const;
  void set_requires_grad(bool requires_grad) const;
  /// The tensor for writing, e.g. in an optimizer.
  Tensor& mutable_tensor() const;
  const std::string& name() const;
  void set_name(std::string name) const;
  /// `hook` runs once per backward, when this leaf's gradient is complete: after the last of its
  /// uses, which backward counts in advance.
  [[nodiscard]] HookHandle register_ready_hook(std::function<void()> hook) const;
  /// One at a time; see leaf_observer.h.
  void set_observer(std::weak_ptr<LeafObserver> observer) const;

  const std::shared_ptr<VariableState>& state() const { return state_; }
  friend bool operator==(const Variable& a, const Variable& b) { return a.state_ == b.state_; }

 private:
  friend Variable attach(Tensor data, std::shared_ptr<Node> node);
  std::shared_ptr<VariableState> state_;
};

/// What a handle points at; for the engine and for nodes.
struct VariableState {
  Tensor data;
  bool requires_grad = false;
  std::shared_ptr<Node> node;  // what made it; empty for a leaf

  // leaves
  std::string name;
  Tensor grad_buffer;
  bool has_grad = false;  // grad_buffer holds a gradient: the next one is added
  bool dense = false;     // some write to it did not say which rows it has (for observers)
  bool applied = false;   // an optimizer's step has used it, and nothing was written since
  bool partial = false;   // holds one device's or rank's part of a sum that is not made yet
  struct Hook {
    std::uint64_t id;
    std::function<void()> call;
  };
  std::vector<Hook> hooks;
  std::uint64_t next_hook = 1;
  std::weak_ptr<LeafObserver> observer;
};

/// A variable made by `node`.
Variable attach(Tensor data, std::shared_ptr<Node> node);

/// Recording is on by default, per thread.
bool grad_enabled();
/// While it lives, recording on this thread is on or off.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};
/// While it lives, nothing is recorded on this thread.
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};

std::ostream& operator<<(std::ostream& out, const Variable& variable);

}  // namespace ringlet::autograd

namespace ringlet {
using autograd::Variable;
}
