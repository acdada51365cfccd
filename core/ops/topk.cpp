#include "ringlet/core/ops/topk.h"

#include "ringlet/core/ops/axis_sizes.h"

namespace ringlet {

constinit Kernel<TopKArgs> topk_kernel("topk");

namespace {

void run(const Tensor& x, int axis, std::int64_t k, bool smallest, Tensor* values,
         Tensor& indices) {
  if (indices.numel() == 0) return;
  const AxisSizes sizes(x.shape(), axis);
  topk_kernel({values ? values->mutable_bytes() : nullptr, indices.mutable_data<std::int64_t>(),
               x.bytes(), sizes.outer, sizes.n, sizes.inner, k, smallest, x.dtype()},
              x.device());
}

Tensor arg(const char* op, const Tensor& x, int axis, bool keepdim, bool smallest) {
  axis = x.shape().index(axis);
  RINGLET_CHECK(x.size(axis) > 0, "[", op, "] no elements along axis ", axis, " of ", x.shape());
  Tensor out = empty(x.shape().with(axis, 1), DType::i64, x.device());
  run(x, axis, 1, smallest, nullptr, out);
  return keepdim ? out : out.view(x.shape().without(axis));
}

}  // namespace

TopK topk(const Tensor& x, std::int64_t k, int axis) {
  axis = x.shape().index(axis);
  RINGLET_CHECK(k >= 0 && k <= x.size(axis), "[topk] k = ", k, " of axis ", axis, " of ",
                x.shape());
  const Shape shape = x.shape().with(axis, k);
  TopK out{empty(shape, x.dtype(), x.device()), empty(shape, DType::i64, x.device())};
  run(x, axis, k, false, &out.values, out.indices);
  return out;
}

Tensor argmax(const Tensor& x, int axis, bool keepdim) {
  return arg("argmax", x, axis, keepdim, false);
}

Tensor argmin(const Tensor& x, int axis, bool keepdim) {
  return arg("argmin", x, axis, keepdim, true);
}

}  // namespace ringlet
