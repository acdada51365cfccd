// Gradients of parameters, concurrently with the rest of backward.
#pragma once

#include <functional>
#include <vector>

#include "ringlet/autograd/node.h"
#include "ringlet/autograd/side_branch.h"

namespace ringlet::autograd {

/// Runs `work`, on this thread's side branch if there is one. `work` reads `reads` and writes the
/// gradients of the inputs from `first` on. With an inner variable among them it does not run on
/// the branch, because backward reads that gradient before a join.
inline void run_beside(Gradients& grads, std::size_t first, const std::vector<Tensor>& reads,
                       const std::function<void()>& work) {
  SideBranch* const branch = SideBranch::current();
  bool leaves = true;
  for (std::size_t i = first; i < grads.size(); ++i)
    leaves = leaves && (!grads[i].needed() || grads[i].is_leaf());
  if (branch && leaves) return branch->run(reads, work);
  work();
}

}  // namespace ringlet::autograd
