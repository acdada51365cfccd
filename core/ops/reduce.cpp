#include "ringlet/core/ops/reduce.h"

#include <algorithm>

#include "ringlet/core/ops/axis_sizes.h"
#include "ringlet/core/ops/checks.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/index.h"

namespace ringlet {

constinit OpKernel<ReduceArgs> reduce_kernel("reduce");

const char* name(ReduceOp op) {
  constexpr const char* kNames[] = {"sum", "mean", "max", "min"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(kLastReduceOp) + 1);
  return kNames[static_cast<std::size_t>(op)];
}

namespace {

// Reduces the adjacent dimensions [first, last] to size 1 each.
Tensor reduce_run(ReduceOp op, const Tensor& x, int first, int last) {
  Shape shape = x.shape();
  for (int i = first; i <= last; ++i) shape[i] = 1;
  const AxisSizes sizes(x.shape(), first, last);
  const bool additive = op == ReduceOp::sum || op == ReduceOp::mean;
  RINGLET_CHECK(sizes.n > 0 || additive, "[", name(op), "] no elements to reduce in ", x.shape());
  Tensor out = empty(shape, x.dtype(), x.device());
  if (out.numel() > 0) {
    check_computes(name(op), x.dtype());  // else the kernel names itself
    reduce_kernel(
        {out.mutable_bytes(), x.bytes(), sizes.outer, sizes.n, sizes.inner, op, x.dtype()},
        x.device());
  }
  return out;
}

// The smallest index along `axis` of an element that equals the extreme one, or is NaN as that is.
Tensor arg(const char* op, ReduceOp extreme, const Tensor& x, int axis, bool keepdim) {
  axis = axis_of(op, x.shape(), axis);
  check_computes(op, x.dtype());
  const std::int64_t n = x.size(axis);
  RINGLET_CHECK(n > 0, "[", op, "] no elements along axis ", axis, " of ", x.shape());
  const Tensor found = maximum(eq(x, reduce(extreme, x, {axis}, true)), ne(x, x));
  Shape line = Shape{1};
  while (line.dim() < x.dim()) line = line.inserted(0, 1);
  const auto end = static_cast<double>(n);
  const Tensor index = arange(0, end, 1, DType::f64, x.device()).view(line.with(axis, n));
  return min(where(found, index, scalar_like(end, index)), {axis}, keepdim).to(DType::i64);
}

}  // namespace

Tensor argmax(const Tensor& x, int axis, bool keepdim) {
  return arg("argmax", ReduceOp::max, x, axis, keepdim);
}
Tensor argmin(const Tensor& x, int axis, bool keepdim) {
  return arg("argmin", ReduceOp::min, x, axis, keepdim);
}

Tensor reduce(ReduceOp op, const Tensor& x, std::vector<int> axes, bool keepdim) {
  if (axes.empty())
    for (int i = 0; i < x.dim(); ++i) axes.push_back(i);
  for (int& axis : axes) axis = axis_of(name(op), x.shape(), axis);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());

  Tensor out = x;
  for (std::size_t i = 0; i < axes.size();) {
    std::size_t j = i;
    while (j + 1 < axes.size() && axes[j + 1] == axes[j] + 1) ++j;
    out = reduce_run(op, out, axes[i], axes[j]);
    i = j + 1;
  }
  if (x.dim() == 0) out = x.clone();
  if (keepdim) return out;
  Shape shape = out.shape();
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) shape = shape.without(*axis);
  return out.view(shape);
}

Tensor cumsum(const Tensor& x, int axis, bool reverse) {
  if (x.dtype() == DType::bf16) return cumsum(x.to(DType::f32), axis, reverse).to(DType::bf16);
  axis = axis_of("cumsum", x.shape(), axis);
  if (x.dtype() == DType::f16) unsupported_dtype("cumsum", x.dtype());
  const std::int64_t n = x.size(axis);
  Tensor out = n > 1 ? x : x.clone();
  for (std::int64_t distance = 1; distance < n; distance *= 2) {
    const Tensor part = narrow(out, axis, reverse ? distance : 0, n - distance);
    out = add(out, pad(part, axis, reverse ? 0 : distance, reverse ? distance : 0));
  }
  return out;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  check_computes("sum_to", x.dtype());
  RINGLET_CHECK_EQ(broadcast(x.shape(), shape, "sum_to"), x.shape(), "[sum_to] ", shape);
  std::vector<int> axes;
  const int leading = x.dim() - shape.dim();
  for (int i = 0; i < x.dim(); ++i)
    if (i < leading || (shape[i - leading] == 1 && x.size(i) != 1)) axes.push_back(i);
  return axes.empty() ? x.view(shape) : sum(x, axes, true).view(shape);
}

}  // namespace ringlet
