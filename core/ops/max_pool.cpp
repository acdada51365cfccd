#include "ringlet/core/ops/max_pool.h"

#include <limits>

#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<MaxPool2dArgs> max_pool2d_kernel("max_pool2d");
constinit OpKernel<MaxPool2dBackwardArgs> max_pool2d_backward_kernel("max_pool2d_backward");

MaxPool2dOutput max_pool2d(const Tensor& x, std::int64_t kernel, std::int64_t stride) {
  RINGLET_CHECK_EQ(x.dim(), 4, "[max_pool2d] dimensions of x, expected (B, C, H, W)");
  if (stride == 0) stride = kernel;
  const std::int64_t height = x.size(2), width = x.size(3);
  RINGLET_CHECK(kernel >= 1 && stride >= 1 && kernel <= height && kernel <= width,
                "[max_pool2d] kernel ", kernel, " and stride ", stride, " on ", x.shape());
  RINGLET_CHECK(height <= std::numeric_limits<std::int32_t>::max() / width,
                "[max_pool2d] planes of ", x.shape(), " are too large for i32 indices");
  const Shape shape{x.size(0), x.size(1), (height - kernel) / stride + 1,
                    (width - kernel) / stride + 1};
  MaxPool2dOutput out{empty(shape, x.dtype(), x.device()), empty(shape, DType::i32, x.device())};
  if (out.y.numel() > 0)
    max_pool2d_kernel(
        {out.y.mutable_bytes(), out.indices.mutable_data<std::int32_t>(), x.bytes(),
         x.size(0) * x.size(1), height, width, shape[2], shape[3], kernel, stride, x.dtype()},
        x.device());
  return out;
}

Tensor max_pool2d_backward(const Tensor& grad, const Tensor& indices, const Shape& x_shape) {
  check_tensor("max_pool2d_backward", "the indices", indices, grad.shape(), DType::i32,
               grad.device());
  RINGLET_CHECK(x_shape.dim() == 4 && grad.dim() == 4 && x_shape[0] == grad.size(0) &&
                    x_shape[1] == grad.size(1),
                "[max_pool2d_backward] grad ", grad.shape(), " of x ", x_shape);
  Tensor out = empty(x_shape, grad.dtype(), grad.device());
  if (out.numel() > 0)
    max_pool2d_backward_kernel(
        {out.mutable_bytes(), grad.bytes(), indices.data<std::int32_t>(), x_shape[0] * x_shape[1],
         x_shape[2] * x_shape[3], grad.size(2) * grad.size(3), grad.dtype()},
        grad.device());
  return out;
}

void index_out_of_plane(std::int64_t index, std::int64_t pixels) {
  fail("[max_pool2d_backward] index ", index, ", expected 0 to ", pixels - 1);
}

}  // namespace ringlet
