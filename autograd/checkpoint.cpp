#include "ringlet/autograd/checkpoint.h"

#include "ringlet/autograd/leaf_recorder.h"
#include "ringlet/autograd/node.h"
#include "ringlet/autograd/side_branch.h"
#include "ringlet/core/tensor/random.h"

namespace ringlet::autograd {

Variable checkpoint(const std::function<Variable(const std::vector<Variable>&)>& segment,
                    const std::vector<Variable>& inputs) {
  if (!grad_enabled()) return segment(inputs);  // no backward will compute it again
  std::vector<Variable> all = inputs, detached;
  std::vector<std::pair<Saved, bool>> saved;  // and whether they require gradients
  for (const Variable& x : inputs) {
    detached.push_back(x.detach());
    saved.emplace_back(x, x.requires_grad());
  }
  const RandomGenerator generator =
      default_generator();  // the segment draws the same numbers again
  Tensor result;
  {
    const NoGrad no_grad;
    const LeafRecorder recorder;
    result = segment(detached).tensor();
    all.insert(all.end(), recorder.leaves().begin(), recorder.leaves().end());
  }
  auto backward = [segment, saved, generator](const Tensor& grad, Gradients& grads) {
    const GeneratorGuard random(generator);
    std::vector<Variable> again;
    for (const auto& [x, requires_grad] : saved) again.emplace_back(x.tensor(grads), requires_grad);
    Variable output;
    {
      const GradMode record(true);
      output = segment(again);
    }
    // The inner run writes the leaves' gradients; the outer run calls their hooks.
    run_backward(output, grad, BackwardOptions{.retain_graph = false, .fire_hooks = false});
    SideBranch::join_current();  // the segment's inputs are leaves that it may have written
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const Tensor one = i < again.size() ? again[i].grad() : Tensor();
      if (one.defined()) {
        grads[i].set(one);
      } else {
        grads[i].skip();
      }
    }
  };
  return record("checkpoint", result, all, std::move(backward));
}

}  // namespace ringlet::autograd
