#include "ringlet/core/ops/convolution.h"

#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<Conv2dArgs> conv2d_kernel("conv2d");
constinit OpKernel<Conv2dBackwardInputArgs> conv2d_backward_input_kernel("conv2d_backward_input");
constinit OpKernel<Conv2dBackwardWeightArgs> conv2d_backward_weight_kernel(
    "conv2d_backward_weight");
constinit OpKernel<Conv2dBackwardBiasArgs> conv2d_backward_bias_kernel("conv2d_backward_bias");

namespace {

Conv2dSizes sizes_of(const char* op, const Shape& x, const Shape& weight,
                     const Conv2dOptions& options) {
  RINGLET_CHECK(x.dim() == 4 && weight.dim() == 4 && x[1] == weight[1] && x[1] >= 1, "[", op,
                "] x ", x, " and weight ", weight,
                "; expected (B, C, H, W) and (O, C, kh, kw), C at least 1");
  RINGLET_CHECK(options.stride >= 1 && options.padding >= 0, "[", op, "] stride ", options.stride,
                " and padding ", options.padding);
  const std::int64_t height = x[2] + 2 * options.padding, width = x[3] + 2 * options.padding;
  RINGLET_CHECK(1 <= weight[2] && weight[2] <= height && 1 <= weight[3] && weight[3] <= width, "[",
                op, "] kernel ", weight, " on ", x, " with padding ", options.padding);
  return {x[0],
          x[1],
          x[2],
          x[3],
          weight[0],
          weight[2],
          weight[3],
          (height - weight[2]) / options.stride + 1,
          (width - weight[3]) / options.stride + 1,
          options.stride,
          options.padding};
}

Shape output_shape(const Conv2dSizes& sizes) {
  return {sizes.batch, sizes.out_channels, sizes.out_height, sizes.out_width};
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  const Conv2dSizes sizes = sizes_of("conv2d", x.shape(), weight.shape(), options);
  check_parameter("conv2d", "the weight", weight, weight.shape(), x);
  if (bias) check_parameter("conv2d", "the bias", bias, {sizes.out_channels}, x);
  Tensor y = empty(output_shape(sizes), x.dtype(), x.device());
  if (y.numel() > 0)
    conv2d_kernel({y.mutable_bytes(), x.bytes(), weight.bytes(), bias.bytes(), sizes, x.dtype()},
                  x.device());
  return y;
}

Tensor conv2d_backward_input(const Tensor& grad, const Tensor& weight, const Shape& x_shape,
                             const Conv2dOptions& options) {
  const Conv2dSizes sizes = sizes_of("conv2d_backward", x_shape, weight.shape(), options);
  check_parameter("conv2d_backward", "the weight", weight, weight.shape(), grad);
  check_shape("conv2d_backward", "grad", grad, output_shape(sizes));
  Tensor out = empty(x_shape, grad.dtype(), grad.device());
  if (out.numel() > 0)
    conv2d_backward_input_kernel(
        {out.mutable_bytes(), grad.bytes(), weight.bytes(), sizes, grad.dtype()}, grad.device());
  return out;
}

void conv2d_backward_weight(GradientSink grad_weight, const Tensor& grad, const Tensor& x,
                            const Conv2dOptions& options) {
  if (!grad_weight) return;
  const Shape& shape = grad_weight.out.shape();
  const Conv2dSizes sizes = sizes_of("conv2d_backward", x.shape(), shape, options);
  check_parameter("conv2d_backward", "the weight's gradient", grad_weight.out, shape, x);
  check_tensor("conv2d_backward", "grad", grad, output_shape(sizes), x.dtype(), x.device());
  if (grad.numel() == 0) {
    if (grad_weight.beta == 0) grad_weight.out.zero_();
    return;
  }
  conv2d_backward_weight_kernel(
      {grad_weight.bytes(), grad_weight.beta, grad.bytes(), x.bytes(), sizes, x.dtype()},
      x.device());
}

void conv2d_backward_bias(GradientSink grad_bias, const Tensor& grad) {
  if (!grad_bias) return;
  RINGLET_CHECK_EQ(grad.dim(), 4, "[conv2d_backward] dimensions of grad");
  check_parameter("conv2d_backward", "the bias' gradient", grad_bias.out, {grad.size(1)}, grad);
  if (grad.numel() == 0) {
    if (grad_bias.beta == 0) grad_bias.out.zero_();
    return;
  }
  conv2d_backward_bias_kernel({grad_bias.bytes(), grad_bias.beta, grad.bytes(), grad.size(0),
                               grad.size(1), grad.size(2) * grad.size(3), grad.dtype()},
                              grad.device());
}

}  // namespace ringlet
