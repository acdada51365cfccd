// Backward in two parts: the gradient of one input first, those of the parameters later. A pipeline
// sends the first to the previous stage before it computes the others.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// The second part.
class LeafGradients {
 public:
  /// Adds to the gradients of the leaves, in the order of backward, and releases the graph. Hooks
  /// run here. Once.
  void run();

 private:
  friend LeafGradients backward_to(const Variable&, const Variable&, const Tensor&);
  struct Postponed;
  std::vector<std::pair<std::shared_ptr<Node>, std::shared_ptr<Postponed>>> parts_;
};

/// Runs backward from `root` as Variable::backward, but of all leaves only `input` gets its
/// gradient; undefined: none does. A node with leaves among its inputs runs once for its other
/// inputs and once in the returned part. Throws for a checkpointed segment.
LeafGradients backward_to(const Variable& input, const Variable& root, const Tensor& grad = {});

}  // namespace ringlet::autograd
