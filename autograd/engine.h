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

}  // namespace ringlet::autograd
