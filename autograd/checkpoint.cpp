#include "ringlet/autograd/checkpoint.h"

#include "ringlet/autograd/leaf_recorder.h"
#include "ringlet/autograd/node.h"
#include "ringlet/core/tensor/random.h"

namespace ringlet::autograd {

Variable checkpoint(const std::function<Variable(const Variable&)>& segment, const Variable& x) {
  if (!grad_enabled()) return segment(x);  // no backward will compute it again
  std::vector<Variable> inputs{x};
  const Generator generator = default_generator();  // the segment draws the same numbers again
  Tensor result;
  {
    const NoGrad no_grad;
    const LeafRecorder recorder;
    result = segment(x.detach()).tensor();
    inputs.insert(inputs.end(), recorder.leaves().begin(), recorder.leaves().end());
  }
  const bool x_requires_grad = x.requires_grad();
  auto backward = [segment, x = Saved(x), x_requires_grad, generator](const Tensor& grad,
                                                                      Gradients& grads) {
    const GeneratorGuard random(generator);
    const Variable input(x.tensor(grads), x_requires_grad);
    Variable output;
    {
      const GradMode record(true);
      output = segment(input);
    }
    // The inner run writes the leaves' gradients; the outer run calls their hooks.
    run_backward(output, grad, BackwardOptions{.retain_graph = false, .fire_hooks = false});
    if (x_requires_grad && input.grad().defined()) grads[0].set(input.grad());
    for (std::size_t i = input.grad().defined() ? 1 : 0; i < grads.size(); ++i) grads[i].skip();
  };
  return record("checkpoint", result, inputs, std::move(backward));
}

}  // namespace ringlet::autograd
