// Max pooling over square windows without padding, as torch.nn.functional.max_pool2d. Rows and
// columns outside every whole window are dropped. The first of equal elements wins; NaN is larger
// than any number.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

struct MaxPool2dArgs {
  void* y;                // (planes, oh, ow)
  std::int32_t* indices;  // (planes, oh, ow), indices into the plane
  const void* x;          // (planes, H, W)
  std::int64_t planes;    // B C
  std::int64_t height, width;
  std::int64_t out_height, out_width;
  std::int64_t kernel, stride;
  DType dtype;
};
extern OpKernel<MaxPool2dArgs> max_pool2d_kernel;

/// grad_x is zero except at `indices`, where grad is summed.
struct MaxPool2dBackwardArgs {
  void* grad_x;                 // (planes, pixels)
  const void* grad;             // (planes, out_pixels)
  const std::int32_t* indices;  // (planes, out_pixels)
  std::int64_t planes;
  std::int64_t pixels;
  std::int64_t out_pixels;
  DType dtype;
};
extern OpKernel<MaxPool2dBackwardArgs> max_pool2d_backward_kernel;

struct MaxPool2dOutput {
  Tensor y;        // (B, C, oh, ow)
  Tensor indices;  // the same, i32: row * W + column of the largest
};

/// x (B, C, H, W); stride 0 means kernel. oh = (H - kernel) / stride + 1.
MaxPool2dOutput max_pool2d(const Tensor& x, std::int64_t kernel, std::int64_t stride = 0);
Tensor max_pool2d_backward(const Tensor& grad, const Tensor& indices, const Shape& x_shape);

/// Throws an Error with the index; for kernels on the CPU.
[[noreturn]] void index_out_of_plane(std::int64_t index, std::int64_t pixels);

}  // namespace ringlet
