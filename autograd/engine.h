// Backward: from one variable to every leaf that made it.
#pragma once

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

struct BackwardOptions {
  bool retain_graph = false;
  /// Leaves out the ready hooks: a run nested in a node's backward leaves them to the outer one.
  bool fire_hooks = true;
};

/// See Variable::backward. Nodes run in the reverse order of their making, each once, when all
/// of its gradient has arrived; neither the walk nor the release of the graph recurses.
void run_backward(const Variable& root, const Tensor& grad, BackwardOptions options);
inline void run_backward(const Variable& root, const Tensor& grad, bool retain_graph) {
  run_backward(root, grad, BackwardOptions{retain_graph, true});
}

/// While it lives, collects the leaves that recorded functions would have used on this thread,
/// whether or not recording is on.
class LeafRecorder {
 public:
  LeafRecorder();
  ~LeafRecorder();
  LeafRecorder(const LeafRecorder&) = delete;
  LeafRecorder& operator=(const LeafRecorder&) = delete;
  const std::vector<Variable>& leaves() const { return leaves_; }
  static void note(const Variable& input);
  /// Whether there is one on this thread: what is computed now is computed again, to learn.
  static bool active();

 private:
  std::vector<Variable> leaves_;
  LeafRecorder* previous_;
};

}  // namespace ringlet::autograd
