// Nodes of the tape. A function in autograd/functions computes its result and records it with its
// backward, which holds the saved tensors:
//
//   inline Variable tanh(const Variable& x) {
//     const Tensor y = ringlet::tanh(x.tensor());
//     return record("tanh", y, {x}, [y = Saved(y)](const Tensor& grad, Gradients& grads) {
//       grads[0].set(mul(grad, sub(scalar_like(1, grad), square(y.tensor(grads)))));
//     });
//   }
#pragma once

#include <functional>
#include <vector>

#include "ringlet/autograd/variable.h"
#include "ringlet/core/ops/gradient_sink.h"

namespace ringlet::autograd {

/// The destination of the gradient of one input of a node. The gradient has the input's shape and
/// device, or set() and sink() throw; set() converts its dtype to the input's. A needed gradient
/// must be set, written or skipped.
class Gradient {
 public:
  /// False if no leaf requires the gradient; the work can then be skipped.
  bool needed() const { return needed_; }
  bool is_leaf() const { return leaf_ != nullptr; }  // the gradient is then written in place

  /// Memory to write to. For a leaf it is the leaf's gradient buffer, in the leaf's dtype.
  GradientSink sink(const Shape& shape, DType dtype, Device device);
  /// The same, of `parameter`'s shape; undefined if the gradient is not needed or there is no
  /// parameter.
  GradientSink sink_of(const Tensor& parameter);

  /// Declares, before the write, that only these rows (i32) of the gradient are not zero.
  void only_rows(const Tensor& rows);

  /// Passes a finished gradient. It may share storage; if it does not, it may be added to in place.
  void set(Tensor grad);
  /// Omits the gradient, like None in PyTorch: it is zero, or backward has written it elsewhere.
  void skip() { written_ = true; }

 private:
  friend class Engine;
  friend class Gradients;
  /// "[snake] gradient of input 1 (parameter rate)"
  std::string description() const;
  void check_fits(const Shape& shape, Device device) const;
  bool needed_ = false;
  const Node* node_ = nullptr;   // runs backward now; null: the caller of backward()
  std::size_t input_ = 0;        // of that node
  const Node* maker_ = nullptr;  // made the input, an inner variable
  VariableState* leaf_ = nullptr;
  Tensor* pending_ = nullptr;  // the sum so far of an inner variable's gradient
  bool* owned_ = nullptr;      // whether only the engine refers to that sum
  bool written_ = false;
  bool rows_known_ = false;
};

/// One per input, in the order given to `record`; any other index throws.
class Gradients {
 public:
  Gradient& operator[](std::size_t input);
  std::size_t size() const { return all_.size(); }

 private:
  friend class Engine;
  friend class Saved;
  explicit Gradients(const Node& node);
  void check_written() const;
  const Node& node_;
  std::vector<Gradient> all_;
};

/// An input of a node: the node that made it, or a leaf that requires a gradient, or neither.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<VariableState> leaf;
};

class Node {
 public:
  /// `backward` passes the gradient of `output` to the inputs.
  using Backward = std::function<void(const Tensor& grad, Gradients& grads)>;

  Node(const char* name, const Tensor& output, const std::vector<Variable>& inputs,
       Backward backward);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const char* name() const { return name_; }
  const std::vector<Edge>& edges() const { return edges_; }
  /// Later nodes have larger numbers; backward runs from large to small.
  std::uint64_t sequence() const { return sequence_; }

 private:
  friend class Engine;
  friend class Gradient;
  friend class Gradients;
  friend class LeafGradients;
  const char* name_;
  std::vector<Edge> edges_;
  Shape shape_;  // of the output, and so of its gradient
  DType dtype_;
  Device device_;
  std::uint64_t sequence_;
  Backward backward_;
  bool released_ = false;
};

/// A tensor that backward needs. Reading it throws, with the node's name, if the tensor was written
/// to since. A leaf is saved as its handle and read during backward, because a parameter may have
/// moved to other memory in between.
class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& tensor);      // NOLINT: assigned from tensors and variables on purpose
  Saved(const Variable& variable);  // NOLINT
  bool defined() const { return leaf_ || tensor_.defined(); }
  const Tensor& tensor(const Gradients& grads) const;

 private:
  std::shared_ptr<VariableState> leaf_;
  Tensor tensor_;
  std::weak_ptr<Storage> storage_;  // of the saved bytes; a leaf may have moved since
  std::uint64_t version_ = 0;
};

/// Whether a result of these inputs must be recorded.
bool needs_recording(const std::vector<Variable>& inputs);
/// A variable made by a node.
Variable made_by(const char* name, Tensor result, const std::vector<Variable>& inputs,
                 Node::Backward backward);

/// The variable of `result`, which the function `name` makes from `inputs`. Without recording it is
/// a plain leaf.
template <class Backward>
Variable record(const char* name, Tensor result, const std::vector<Variable>& inputs,
                Backward&& backward) {
  if (!needs_recording(inputs)) return Variable(std::move(result));
  return made_by(name, std::move(result), inputs, std::forward<Backward>(backward));
}

}  // namespace ringlet::autograd
