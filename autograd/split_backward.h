// Backward in two parts: the gradients of the inputs first, those of the parameters later. A
// pipeline sends the first to the previous stage before it computes the others.
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
  friend LeafGradients backward_to(const std::vector<Variable>&, const Variable&, const Tensor&);
  struct Postponed;
  std::vector<std::pair<std::shared_ptr<Node>, std::shared_ptr<Postponed>>> parts_;
};

/// Runs backward from `root` as Variable::backward, but of all leaves only `inputs` get their
/// gradients. A node with other leaves among its inputs runs once without them and once in the
/// returned part. Throws for a checkpointed segment.
LeafGradients backward_to(const std::vector<Variable>& inputs, const Variable& root,
                          const Tensor& grad = {});

}  // namespace ringlet::autograd
