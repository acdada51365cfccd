#include "ringlet/nn/slices.h"

#include <algorithm>

#include "ringlet/autograd/node.h"
#include "ringlet/comm/rows.h"
#include "ringlet/core/ops/combine.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/matmul.h"

namespace ringlet::nn {
namespace {

using autograd::Gradients;
using autograd::Saved;

/// Slice `i` of `n` of the rows, sharing storage.
Tensor slice_rows(const Tensor& x, int i, int n) {
  return x.slice(slice_edge(x.size(0), i, n), slice_edge(x.size(0), i + 1, n));
}

}  // namespace

LayerSlices::LayerSlices(comm::Group group, int here, bool sequence)
    : group_(std::move(group)), here_(here), sequence_(sequence) {
  RINGLET_CHECK(here == 1 || group_.size() == 1, "[slices] ", here, " on each of ", group_.size(),
                " ranks");
}

/// The `rows` rows of all ranks, of which each has its slice.
Tensor LayerSlices::gather_rows(const Tensor& mine, std::int64_t rows) const {
  if (group_.size() == 1) return mine;
  return LeafSlice{group_, mine.shape().with(0, rows), 0}.gather(mine);
}

/// The sum of the slices that are here, in order, and then over the ranks; with `sequence` this
/// rank's rows of it. A single slice with one owner besides `parts` is overwritten.
Tensor LayerSlices::sum_over(std::vector<Tensor> parts, bool sequence) const {
  Tensor sum = std::move(parts.front());
  if (parts.size() > 1) {
    parts.front() = std::move(sum);
    sum = empty_like(parts.front());
    combine(sum, parts);
  }
  if (group_.size() == 1) return sum;
  if (sum.storage().use_count() > 2 || sum.storage()->is_shared_outside()) sum = sum.clone();
  if (sequence) return LeafSlice{group_, sum.shape(), 0}.reduce(sum);
  group_.all_reduce(sum).wait();
  return sum;
}

/// `value`, which is made of x, for each slice here.
std::vector<Variable> LayerSlices::each(const Variable& x, const Tensor& value,
                                        bool sequence) const {
  const auto parts = std::make_shared<std::vector<Tensor>>();
  std::vector<Variable> inputs(static_cast<std::size_t>(here_));
  // Backward reaches the inputs in the reverse order of their creation.
  for (std::size_t i = inputs.size(); i-- > 0;) {
    const bool last = i + 1 == inputs.size();
    inputs[i] = autograd::record(
        "slice_input", value, {x},
        [slices = *this, parts, last, sequence](const Tensor& grad, Gradients& grads) {
          parts->push_back(grad);
          if (!last) return grads[0].skip();
          grads[0].set(slices.sum_over(std::move(*parts), sequence));
          parts->clear();
        });
  }
  return inputs;
}

std::vector<Variable> LayerSlices::inputs(const Variable& x, std::int64_t rows) const {
  if (!sequence_) return each(x, x.tensor(), false);
  RINGLET_CHECK(rows >= 0, "[slices] of an unknown number of rows");
  return each(x, gather_rows(x.tensor(), rows), true);
}

std::vector<Variable> LayerSlices::copies(const Variable& parameter) const {
  if (!parameter || count() == 1) return {parameter};
  return each(parameter, parameter.tensor().clone(), false);
}

Variable LayerSlices::sum(const std::vector<Variable>& partial, const Variable& bias) const {
  std::vector<Tensor> parts;
  for (const Variable& one : partial) parts.push_back(one.tensor());
  const std::int64_t rows = parts.front().size(0);
  // One bias, or a copy for each slice, which its share of the rows reads.
  const std::vector<Variable> biases = sequence_ ? copies(bias) : std::vector{bias};
  Tensor y = sum_over(std::move(parts), sequence_);
  if (bias) y = add(y, biases.front().tensor().to(y.dtype()));
  std::vector<Variable> inputs = partial;
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  auto backward = [slices = *this, biases = std::vector<Saved>(biases.begin(), biases.end()), rows](
                      const Tensor& grad, Gradients& grads) {
    const std::size_t count = grads.size() - biases.size();
    const Tensor whole = slices.sequence_ ? slices.gather_rows(grad, rows) : grad;
    for (std::size_t i = 0; i < count; ++i)
      if (grads[i].needed()) grads[i].set(whole);
    const int shares = static_cast<int>(biases.size());
    for (int i = 0; i < shares; ++i) {
      autograd::Gradient& of_bias = grads[count + static_cast<std::size_t>(i)];
      if (!of_bias.needed()) continue;
      GradientSink to = of_bias.sink_of(biases[static_cast<std::size_t>(i)].tensor(grads));
      sum_rows_into(to.out, slice_rows(grad, i, shares), to.beta);
    }
  };
  return autograd::record("slice_sum", y, inputs, std::move(backward));
}

Variable LayerSlices::part(const Variable& whole, int axis, int i) const {
  if (!whole || here_ == 1) return whole;
  const std::int64_t n = whole.size(axis), begin = slice_edge(n, i, here_);
  return autograd::narrow(whole, axis, begin, slice_edge(n, i + 1, here_) - begin);
}

Variable LayerSlices::own_rows(const Variable& x) const {
  if (group_.size() == 1) return x;
  auto backward = [slices = *this, rows = x.size(0)](const Tensor& grad, Gradients& grads) {
    grads[0].set(slices.gather_rows(grad, rows));
  };
  // A copy, which does not keep the other rows.
  return autograd::record("own_rows", slice_rows(x.tensor(), group_.rank(), group_.size()).clone(),
                          {x}, std::move(backward));
}

Variable LayerSlices::all_rows(const Variable& x, std::int64_t rows) const {
  if (group_.size() == 1) return x;
  auto backward = [group = group_](const Tensor& grad, Gradients& grads) {
    grads[0].set(slice_rows(grad, group.rank(), group.size()));
  };
  return autograd::record("all_rows", gather_rows(x.tensor(), rows), {x}, std::move(backward));
}

Tensor LayerSlices::rows_of(const Tensor& all, int i) const {
  return all ? slice_rows(all, number(i), count()) : all;
}

std::int64_t LeafSlice::numel(int from, int to) const {
  std::int64_t n = 1;
  for (int i = from; i < to; ++i) n *= whole[i];
  return n;
}

std::vector<std::int64_t> LeafSlice::counts() const {
  const std::int64_t others = numel(0, dim) * numel(dim + 1, whole.dim());
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < group.size(); ++rank) counts.push_back(others * length(rank));
  return counts;
}

Tensor LeafSlice::of(const Tensor& value) const {
  return narrow(value, dim, begin(group.rank()), length(group.rank()));
}

Tensor LeafSlice::gather(const Tensor& mine) const {
  const std::vector<std::int64_t> counts = this->counts();
  const Tensor all = comm::all_gather_rows(group, mine.view({-1}), counts);
  std::vector<Tensor> slices;
  std::int64_t at = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::int64_t end = at + counts[static_cast<std::size_t>(rank)];
    slices.push_back(all.slice(at, end).view(whole.with(dim, length(rank))));
    at = end;
  }
  return dim == 0 ? all.view(whole) : concat(slices, dim);
}

Tensor LeafSlice::reduce(Tensor value) const {
  RINGLET_CHECK(dim == 0, "[slices] of dimension ", dim, " of ", whole);
  return comm::reduce_scatter_rows(group, value.view({-1}), counts())
      .view(whole.with(0, length(group.rank())));
}

void LeafSlice::for_runs(std::int64_t first, std::int64_t last, const Visit& visit) const {
  const std::int64_t inner = numel(dim + 1, whole.dim());
  const std::int64_t run = length(group.rank()) * inner;
  while (first < last) {
    const std::int64_t outer = first / run, end = std::min(last, (outer + 1) * run);
    visit(outer * whole[dim] * inner + begin(group.rank()) * inner + first % run, first, end);
    first = end;
  }
}

}  // namespace ringlet::nn
