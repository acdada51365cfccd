// Reductions, with their gradients.
#include "ringlet/autograd/functions.h"

#include <cmath>
#include <utility>

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/checks.h"

namespace ringlet::autograd {

Variable reduce(ReduceOp op, const Variable& x, std::vector<int> axes, bool keepdim) {
  const Tensor y = ringlet::reduce(op, x.tensor(), axes, keepdim);
  const Shape shape = x.shape();
  Shape kept = shape;  // y's, with reduced dimensions as 1
  for (int i = 0; i < shape.dim(); ++i) kept[i] = axes.empty() ? 1 : shape[i];
  for (int axis : axes) kept[axis] = 1;
  const bool extreme = op == ReduceOp::max || op == ReduceOp::min;
  auto backward = [op, shape, kept, x = extreme ? Saved(x) : Saved(),
                   y = extreme ? Saved(y) : Saved()](const Tensor& grad, Gradients& grads) {
    const Tensor wide = add(grad.view(kept), zeros(shape, grad.dtype(), grad.device()));
    if (op == ReduceOp::sum) return grads[0].set(wide);
    if (op == ReduceOp::mean) {
      const auto n = static_cast<double>(shape.numel()) / static_cast<double>(kept.numel());
      return grads[0].set(scale(wide, 1 / n));
    }
    // Equal extremes share the gradient evenly, as in PyTorch's amax and amin.
    const Tensor hit = eq(x.tensor(grads), y.tensor(grads).view(kept)).to(grad.dtype());
    grads[0].set(div(mul(wide, hit), sum_to(hit, kept)));
  };
  return record(name(op), y, {x}, std::move(backward));
}

Variable sum(const Variable& x, std::vector<int> axes, bool keepdim) {
  return reduce(ReduceOp::sum, x, std::move(axes), keepdim);
}
Variable mean(const Variable& x, std::vector<int> axes, bool keepdim) {
  return reduce(ReduceOp::mean, x, std::move(axes), keepdim);
}
Variable max(const Variable& x, std::vector<int> axes, bool keepdim) {
  return reduce(ReduceOp::max, x, std::move(axes), keepdim);
}
Variable min(const Variable& x, std::vector<int> axes, bool keepdim) {
  return reduce(ReduceOp::min, x, std::move(axes), keepdim);
}

Variable logsumexp(const Variable& x, std::vector<int> axes, bool keepdim) try {
  const Tensor largest = ringlet::max(x.tensor(), axes, true);
  const Tensor finite = lt(ringlet::abs(largest), scalar_like(INFINITY, largest));
  const Tensor shift = ringlet::where(finite, largest, scalar_like(0, largest));
  const Tensor wide =
      add(ringlet::log(ringlet::sum(ringlet::exp(sub(x.tensor(), shift)), axes, true)), shift);
  const Tensor y = keepdim ? wide : ringlet::max(wide, axes);
  return record(
      "logsumexp", y, {x},
      [x = Saved(x), wide = Saved(wide)](const Tensor& grad, Gradients& grads) {
        const Tensor& sums = wide.tensor(grads);
        grads[0].set(mul(ringlet::exp(sub(x.tensor(grads), sums)), grad.view(sums.shape())));
      });
} catch (const Error& error) {
  fail_as("logsumexp", error);
}

Variable var(const Variable& x, std::vector<int> axes, bool keepdim, double correction) try {
  const Variable average = mean(x, axes, true);
  const auto n = static_cast<double>(x.numel()) / static_cast<double>(average.numel());
  return sum(square(x - average), std::move(axes), keepdim) / (n - correction);
} catch (const Error& error) {
  fail_as("var", error);
}
Variable std(const Variable& x, std::vector<int> axes, bool keepdim, double correction) try {
  return sqrt(var(x, std::move(axes), keepdim, correction));
} catch (const Error& error) {
  fail_as("std", error);
}

Variable cumsum(const Variable& x, int axis) {
  return record("cumsum", ringlet::cumsum(x.tensor(), axis), {x},
                [axis](const Tensor& grad, Gradients& grads) {
                  grads[0].set(ringlet::cumsum(grad, axis, /*reverse=*/true));
                });
}

}  // namespace ringlet::autograd
