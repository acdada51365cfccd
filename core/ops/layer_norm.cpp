#include "ringlet/core/ops/layer_norm.h"

#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<LayerNormArgs> layer_norm_kernel("layer_norm");
constinit OpKernel<LayerNormBackwardArgs> layer_norm_backward_kernel("layer_norm_backward");

namespace {

constexpr const char* kOp = "layer_norm";

RowDropout row_dropout_of(const Tensor& x, const DropoutKey& key, const Tensor& positions) {
  if (positions) check_same_device(kOp, x, positions);
  return row_dropout(kOp, key, positions, rows_of(kOp, x));
}

LayerNormArgs arguments(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  LayerNormArgs args{};
  args.rows = rows_of(kOp, x);
  args.columns = x.size(-1);
  check_parameter(kOp, "weight", weight, {args.columns}, x);
  check_parameter(kOp, "bias", bias, {args.columns}, x);
  args.x = x.bytes();
  args.weight = weight.bytes();
  args.bias = bias.bytes();
  args.eps = eps;
  args.dtype = x.dtype();
  return args;
}

// Checks the arguments that all backwards share, and runs.
void run_backward(LayerNormBackwardArgs args, const Tensor& grad, const Tensor& z,
                  const Tensor& rstd, const Tensor& weight, GradientSink grad_weight,
                  GradientSink grad_bias, GradientSink x_sums = {}) {
  check_like(kOp, "gradient", grad, z);
  args.rows = rows_of(kOp, grad);
  args.columns = grad.size(-1);
  check_parameter(kOp, "weight", weight, {args.columns}, grad);
  if (grad_weight) check_like(kOp, "gradient of weight", grad_weight.out, weight);
  if (grad_bias) check_like(kOp, "gradient of bias", grad_bias.out, weight);
  if (x_sums) check_like(kOp, "sums of x's gradient", x_sums.out, weight);
  check_parameter(kOp, "rstd", rstd, {args.rows}, grad);
  args.grad_weight = grad_weight.bytes();
  args.grad_bias = grad_bias.bytes();
  args.beta_weight = grad_weight.beta;
  args.beta_bias = grad_bias.beta;
  args.x_sums = x_sums.bytes();
  args.beta_x_sums = x_sums.beta;
  args.grad = grad.bytes();
  args.z = z.bytes();
  args.rstd = rstd.bytes();
  args.weight = weight.bytes();
  args.dtype = grad.dtype();
  layer_norm_backward_kernel(args, grad.device());
}

}  // namespace

LayerNormOutput layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  LayerNormArgs args = arguments(x, weight, bias, eps);
  LayerNormOutput out{empty_like(x), empty({args.rows}, weight.dtype(), x.device()),
                      empty({args.rows}, weight.dtype(), x.device())};
  args.y = out.y.mutable_bytes();
  args.mean = out.mean.mutable_bytes();
  args.rstd = out.rstd.mutable_bytes();
  if (args.rows > 0) layer_norm_kernel(args, x.device());
  return out;
}

Tensor layer_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& mean,
                           const Tensor& rstd, const Tensor& weight, bool needs_x,
                           GradientSink grad_weight, GradientSink grad_bias) {
  check_parameter(kOp, "mean", mean, {rows_of(kOp, x)}, x);
  LayerNormBackwardArgs args{};
  Tensor grad_x = needs_x ? empty_like(x) : Tensor();
  args.grad_residual = needs_x ? grad_x.mutable_bytes() : nullptr;
  args.mean = mean.bytes();
  run_backward(args, grad, x, rstd, weight, std::move(grad_weight), std::move(grad_bias));
  return grad_x;
}

ResidualLayerNormOutput residual_dropout_layer_norm(const Tensor& x, const Tensor& residual,
                                                    const DropoutKey& key, const Tensor& positions,
                                                    const Tensor& weight, const Tensor& bias,
                                                    double eps) try {
  check_like(kOp, "residual", residual, x);
  LayerNormArgs args = arguments(x, weight, bias, eps);
  args.dropout = row_dropout_of(x, key, positions);
  ResidualLayerNormOutput out{empty_like(x), empty_like(x),
                              empty({args.rows}, weight.dtype(), x.device())};
  args.y = out.y.mutable_bytes();
  args.normalized = out.normalized.mutable_bytes();
  args.rstd = out.rstd.mutable_bytes();
  args.residual = residual.bytes();
  if (args.rows > 0) layer_norm_kernel(args, x.device());
  return out;
} catch (const Error& error) {
  fail_as("residual_dropout_layer_norm", error);
}

ResidualLayerNormGradients residual_dropout_layer_norm_backward(
    const Tensor& grad, const Tensor& normalized, const Tensor& rstd, const Tensor& weight,
    const DropoutKey& key, const Tensor& positions, GradientSink grad_weight,
    GradientSink grad_bias, GradientSink x_sums) {
  LayerNormBackwardArgs args{};
  args.dropout = row_dropout_of(grad, key, positions);
  ResidualLayerNormGradients out{{}, empty_like(grad)};
  out.x = args.dropout.threshold > 0 ? empty_like(grad) : out.residual;
  args.grad_residual = out.residual.mutable_bytes();
  args.grad_x = args.dropout.threshold > 0 ? out.x.mutable_bytes() : nullptr;
  run_backward(args, grad, normalized, rstd, weight, std::move(grad_weight), std::move(grad_bias),
               std::move(x_sums));
  return out;
}

Tensor layer_norm_dropout_backward(const Tensor& grad, const Tensor& normalized, const Tensor& rstd,
                                   const Tensor& weight, const DropoutKey& key,
                                   const Tensor& positions, GradientSink grad_weight,
                                   GradientSink grad_bias) {
  LayerNormBackwardArgs args{};
  args.output_dropout = row_dropout_of(grad, key, positions);
  Tensor grad_z = empty_like(grad);
  args.grad_residual = grad_z.mutable_bytes();
  run_backward(args, grad, normalized, rstd, weight, std::move(grad_weight), std::move(grad_bias));
  return grad_z;
}

}  // namespace ringlet
