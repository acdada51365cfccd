// The two ends of a part of a model that is computed in slices (Megatron-LM's f and g). A slice
// lies on each of several ranks; in the reference mode one device computes all of them.
#pragma once

#include "ringlet/autograd/leaf_slice.h"
#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/combine.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/matmul.h"

namespace ringlet::autograd {

/// The sum of the slices that are here, in order, and then over the ranks (null: none). A single
/// slice with one owner besides `parts` is overwritten.
inline Tensor sum_of_slices(std::vector<Tensor> parts, SliceRanks* ranks) {
  Tensor sum = std::move(parts.front());
  if (parts.size() > 1) {
    parts.front() = std::move(sum);
    sum = empty_like(parts.front());
    combine(sum, parts);
  }
  if (!ranks || ranks->size() == 1) return sum;
  if (sum.storage().use_count() > 2 || sum.storage()->is_shared_outside()) sum = sum.clone();
  ranks->all_reduce(sum);
  return sum;
}

/// x for each of the `here` slices. The gradient is the sum of the slices' and the ranks'.
inline std::vector<Variable> slice_inputs(const Variable& x, int here,
                                          const std::shared_ptr<SliceRanks>& ranks) {
  const auto parts = std::make_shared<std::vector<Tensor>>();
  std::vector<Variable> inputs(static_cast<std::size_t>(here));
  // Backward reaches the inputs in the reverse order of their creation.
  for (std::size_t i = inputs.size(); i-- > 0;) {
    const bool last = i + 1 == inputs.size();
    inputs[i] = record("slice_input", x.tensor(), {x},
                       [parts, last, ranks](const Tensor& grad, Gradients& grads) {
                         parts->push_back(grad);
                         if (!last) return grads[0].skip();
                         grads[0].set(sum_of_slices(std::move(*parts), ranks.get()));
                         parts->clear();
                       });
  }
  return inputs;
}

/// The sum of the slices' partial results (R, C), and then of the ranks', plus `bias` (C), which
/// may be undefined.
inline Variable slice_sum(const std::vector<Variable>& partial, const Variable& bias,
                          const std::shared_ptr<SliceRanks>& ranks) {
  std::vector<Tensor> parts;
  for (const Variable& one : partial) parts.push_back(one.tensor());
  Tensor y = sum_of_slices(std::move(parts), ranks.get());
  if (bias) y = add(y, bias.tensor().to(y.dtype()));
  std::vector<Variable> inputs = partial;
  inputs.push_back(bias);
  return record("slice_sum", y, inputs, [bias = Saved(bias)](const Tensor& grad, Gradients& grads) {
    const std::size_t slices = grads.size() - 1;
    for (std::size_t i = 0; i < slices; ++i)
      if (grads[i].needed()) grads[i].set(grad);
    if (!grads[slices].needed()) return;
    Accumulator to = grads[slices].sink_of(bias.tensor(grads));
    sum_rows_into(to.out, grad, to.beta);
  });
}

}  // namespace ringlet::autograd
