// Backward: from one variable to every leaf that it depends on.
#pragma once

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

struct BackwardOptions {
  bool retain_graph = false;
  /// Whether to call ready hooks; a run inside a node's backward leaves them to the outer run.
  bool fire_hooks = true;
};

/// See Variable::backward. Nodes run in the reverse order of their creation, each once, when its
/// gradient is complete. Neither the traversal nor the release of the graph recurses.
void run_backward(const Variable& root, const Tensor& grad, BackwardOptions options);
inline void run_backward(const Variable& root, const Tensor& grad, bool retain_graph) {
  run_backward(root, grad, BackwardOptions{retain_graph, true});
}

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

}  // namespace ringlet::autograd
