// The two ends of a part of a model that is computed in slices (Megatron-LM's f and g). A slice
// lies on each of several ranks; in the reference mode one device computes all of them. Under
// sequence parallelism (Korthikanti et al. 2022) activations are cut by rows outside of such parts.
#pragma once

#include "ringlet/autograd/leaf_slice.h"
#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/combine.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/matmul.h"

namespace ringlet::autograd {

using SliceRanksPtr = std::shared_ptr<SliceRanks>;  // null: one rank

/// The part of a sum over the ranks that a rank keeps.
enum class Keep { all, own_rows };

/// Slice `i` of `n` of the rows, sharing storage.
inline Tensor slice_rows(const Tensor& x, int i, int n) {
  return x.slice(slice_edge(x.size(0), i, n), slice_edge(x.size(0), i + 1, n));
}
/// The `rows` rows of all ranks, of which each has its slice.
inline Tensor gather_rows(const Tensor& mine, std::int64_t rows, const SliceRanksPtr& ranks) {
  if (!ranks || ranks->size() == 1) return mine;
  return LeafSlice{ranks, mine.shape().with(0, rows), 0}.gather(mine);
}

/// The sum of the slices that are here, in order, and then over the ranks. A single slice with one
/// owner besides `parts` is overwritten.
inline Tensor sum_of_slices(std::vector<Tensor> parts, const SliceRanksPtr& ranks,
                            Keep keep = Keep::all) {
  Tensor sum = std::move(parts.front());
  if (parts.size() > 1) {
    parts.front() = std::move(sum);
    sum = empty_like(parts.front());
    combine(sum, parts);
  }
  if (!ranks || ranks->size() == 1) return sum;
  if (sum.storage().use_count() > 2 || sum.storage()->is_shared_outside()) sum = sum.clone();
  if (keep == Keep::own_rows) return LeafSlice{ranks, sum.shape(), 0}.reduce(sum);
  ranks->all_reduce(sum);
  return sum;
}

/// `value`, which is made of x, for each of the `here` slices. The gradient of x is the sum of the
/// slices' and the ranks'.
inline std::vector<Variable> slice_inputs(const Variable& x, const Tensor& value, int here,
                                          const SliceRanksPtr& ranks, Keep keep = Keep::all) {
  const auto parts = std::make_shared<std::vector<Tensor>>();
  std::vector<Variable> inputs(static_cast<std::size_t>(here));
  // Backward reaches the inputs in the reverse order of their creation.
  for (std::size_t i = inputs.size(); i-- > 0;) {
    const bool last = i + 1 == inputs.size();
    inputs[i] = record("slice_input", value, {x},
                       [parts, last, ranks, keep](const Tensor& grad, Gradients& grads) {
                         parts->push_back(grad);
                         if (!last) return grads[0].skip();
                         grads[0].set(sum_of_slices(std::move(*parts), ranks, keep));
                         parts->clear();
                       });
  }
  return inputs;
}

/// The sum of the slices' partial results (R, C), and then of the ranks', plus `bias` (C), which
/// may be undefined. There is one bias, or for each slice a copy that its share of the rows reads.
inline Variable slice_sum(const std::vector<Variable>& partial, const std::vector<Variable>& bias,
                          const SliceRanksPtr& ranks, Keep keep = Keep::all) {
  std::vector<Tensor> parts;
  for (const Variable& one : partial) parts.push_back(one.tensor());
  const std::int64_t rows = parts.front().size(0);
  Tensor y = sum_of_slices(std::move(parts), ranks, keep);
  if (bias.front()) y = add(y, bias.front().tensor().to(y.dtype()));
  std::vector<Variable> inputs = partial;
  inputs.insert(inputs.end(), bias.begin(), bias.end());
  auto backward = [bias = std::vector<Saved>(bias.begin(), bias.end()), rows, ranks, keep](
                      const Tensor& grad, Gradients& grads) {
    const std::size_t slices = grads.size() - bias.size();
    const Tensor whole = keep == Keep::all ? grad : gather_rows(grad, rows, ranks);
    for (std::size_t i = 0; i < slices; ++i)
      if (grads[i].needed()) grads[i].set(whole);
    const int shares = static_cast<int>(bias.size());
    for (int i = 0; i < shares; ++i) {
      Gradient& of_bias = grads[slices + static_cast<std::size_t>(i)];
      if (!of_bias.needed()) continue;
      Accumulator to = of_bias.sink_of(bias[static_cast<std::size_t>(i)].tensor(grads));
      sum_rows_into(to.out, slice_rows(grad, i, shares), to.beta);
    }
  };
  return record("slice_sum", y, inputs, std::move(backward));
}

// ---- activations cut by rows ----------------------------------------------------------------

/// This rank's slice of x's rows. The gradient is gathered.
inline Variable own_rows(const Variable& x, const SliceRanksPtr& ranks) {
  auto backward = [rows = x.size(0), ranks](const Tensor& grad, Gradients& grads) {
    grads[0].set(gather_rows(grad, rows, ranks));
  };
  // A copy, which does not keep the other rows.
  return record("own_rows", slice_rows(x.tensor(), ranks->rank(), ranks->size()).clone(), {x},
                std::move(backward));
}

/// The `rows` rows of all ranks. All ranks have the same gradient of them.
inline Variable all_rows(const Variable& x, std::int64_t rows, const SliceRanksPtr& ranks) {
  auto backward = [ranks](const Tensor& grad, Gradients& grads) {
    grads[0].set(slice_rows(grad, ranks->rank(), ranks->size()));
  };
  return record("all_rows", gather_rows(x.tensor(), rows, ranks), {x}, std::move(backward));
}

}  // namespace ringlet::autograd
