// Two-dimensional convolution (cross-correlation, as torch.nn.functional.conv2d), NCHW. Stride and
// zero padding are the same for both dimensions and on both sides. Parameters are f32 for f32 or
// bf16 images, f64 for f64; sums have the parameters' dtype.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/ops/gradient_sink.h"

namespace ringlet {

struct Conv2dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

struct Conv2dSizes {
  std::int64_t batch, channels, height, width;             // x (B, C, H, W)
  std::int64_t out_channels, kernel_height, kernel_width;  // weight (O, C, kh, kw)
  std::int64_t out_height, out_width;                      // y (B, O, oh, ow)
  std::int64_t stride, padding;
};

struct Conv2dArgs {
  void* y;             // (B, O, oh, ow)
  const void* x;       // (B, C, H, W)
  const void* weight;  // (O, C, kh, kw)
  const void* bias;    // (O), may be null
  Conv2dSizes sizes;
  DType dtype;  // of x and y
};
extern OpKernel<Conv2dArgs> conv2d_kernel;

struct Conv2dBackwardInputArgs {
  void* grad_x;        // (B, C, H, W)
  const void* grad;    // (B, O, oh, ow)
  const void* weight;  // (O, C, kh, kw)
  Conv2dSizes sizes;
  DType dtype;  // of grad and grad_x
};
extern OpKernel<Conv2dBackwardInputArgs> conv2d_backward_input_kernel;

struct Conv2dBackwardWeightArgs {
  void* grad_weight;  // (O, C, kh, kw)
  double beta;
  const void* grad;  // (B, O, oh, ow)
  const void* x;     // (B, C, H, W)
  Conv2dSizes sizes;
  DType dtype;  // of grad and x
};
extern OpKernel<Conv2dBackwardWeightArgs> conv2d_backward_weight_kernel;

struct Conv2dBackwardBiasArgs {
  void* grad_bias;  // (O)
  double beta;
  const void* grad;  // (B, O, P)
  std::int64_t batch;
  std::int64_t channels;  // O
  std::int64_t pixels;    // P
  DType dtype;            // of grad
};
extern OpKernel<Conv2dBackwardBiasArgs> conv2d_backward_bias_kernel;

/// x (B, C, H, W), weight (O, C, kh, kw), bias (O) or undefined -> (B, O, oh, ow) in x's dtype; oh
/// = (H + 2 padding - kh) / stride + 1. Throws if the kernel is larger than the padded image.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options = {});

/// The gradients; grad has the output's shape and x's dtype, `x_shape` is (B, C, H, W).
Tensor conv2d_backward_input(const Tensor& grad, const Tensor& weight, const Shape& x_shape,
                             const Conv2dOptions& options = {});
void conv2d_backward_weight(GradientSink grad_weight, const Tensor& grad, const Tensor& x,
                            const Conv2dOptions& options = {});
void conv2d_backward_bias(GradientSink grad_bias, const Tensor& grad);

}  // namespace ringlet
