// Layer normalisation of rows, alone and fused with dropout and a residual:
//   y = weight (x - mean) rstd + bias,  rstd = 1 / sqrt(var + eps), var over C without correction.
// Activations are f32, f64 or bf16. Weight, bias, their gradients, mean and rstd are f32, or f64
// for f64 activations. A row with squares that overflow (|x - mean| above 1.8e19 in f32) becomes
// its bias. PyTorch gives that or NaN; a test of each row would slow the kernel. Sums over rows run
// in blocks of kLayerNormBlock rows. Partial sums are added in order, so the bits do not depend on
// the number of threads.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/ops/gradient_sink.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/random.h"

namespace ringlet {

inline constexpr std::int64_t kLayerNormBlock = 32;
inline std::int64_t layer_norm_blocks(std::int64_t rows) {
  return (rows + kLayerNormBlock - 1) / kLayerNormBlock;
}

struct LayerNormArgs {
  void* y;               // (R, C)
  void* normalized;      // (R, C) (z - mean) rstd, may be null
  void* mean;            // (R), may be null
  void* rstd;            // (R)
  const void* x;         // (R, C)
  const void* residual;  // (R, C), may be null: z = residual + dropout(x), else z = x
  const void* weight;    // (C)
  const void* bias;      // (C)
  std::int64_t rows;
  std::int64_t columns;
  double eps;
  RowDropout dropout;
  DType dtype;
};
extern OpKernel<LayerNormArgs> layer_norm_kernel;

struct LayerNormBackwardArgs {
  void* grad_x;         // (R, C), may be null
  void* grad_residual;  // (R, C) the gradient of z, may be null
  void* grad_weight;    // (C), may be null
  void* grad_bias;      // (C), may be null
  void* x_sums;         // (C) the sums of the rows of x's gradient as stored, may be null
  double beta_weight;
  double beta_bias;
  double beta_x_sums;
  const void* grad;    // (R, C)
  const void* z;       // (R, C) the forward's z; if mean is null, its `normalized` instead
  const void* mean;    // (R), may be null
  const void* rstd;    // (R)
  const void* weight;  // (C)
  std::int64_t rows;
  std::int64_t columns;
  RowDropout dropout;         // between grad_residual and grad_x
  RowDropout output_dropout;  // of y, after the normalisation
  DType dtype;
};
extern OpKernel<LayerNormBackwardArgs> layer_norm_backward_kernel;
/// The separate computation of x_sums.
inline SumRowsArgs x_sums_of(const LayerNormBackwardArgs& args) {
  return {args.x_sums,      args.grad_x ? args.grad_x : args.grad_residual,
          args.rows,        args.columns,
          args.beta_x_sums, args.dtype};
}

struct LayerNormOutput {
  Tensor y;     // x's shape
  Tensor mean;  // (R)
  Tensor rstd;  // (R)
};
/// x (.., C), viewed as R rows; weight and bias (C).
LayerNormOutput layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
/// Returns grad_x, undefined unless `needs_x`.
Tensor layer_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& mean,
                           const Tensor& rstd, const Tensor& weight, bool needs_x,
                           GradientSink grad_weight, GradientSink grad_bias);

struct ResidualLayerNormOutput {
  Tensor y;           // x's shape
  Tensor normalized;  // x's shape; with it backward needs neither x nor the residual, nor
                      // a division by the weight, as from y
  Tensor rstd;        // (R)
};
/// y = layer_norm(residual + dropout(x)). `positions` (R, 2) i32 as for dropout().
ResidualLayerNormOutput residual_dropout_layer_norm(const Tensor& x, const Tensor& residual,
                                                    const DropoutKey& key, const Tensor& positions,
                                                    const Tensor& weight, const Tensor& bias,
                                                    double eps);
struct ResidualLayerNormGradients {
  Tensor x;  // shares storage with `residual` if nothing is dropped
  Tensor residual;
};
/// `x_sums` (C) gets the sum of the rows of x's gradient, as sum_rows_into.
ResidualLayerNormGradients residual_dropout_layer_norm_backward(
    const Tensor& grad, const Tensor& normalized, const Tensor& rstd, const Tensor& weight,
    const DropoutKey& key, const Tensor& positions, GradientSink grad_weight,
    GradientSink grad_bias, GradientSink x_sums = {});

/// The gradient of z for y = dropout(layer_norm(z)), from the stored `normalized`.
Tensor layer_norm_dropout_backward(const Tensor& grad, const Tensor& normalized, const Tensor& rstd,
                                   const Tensor& weight, const DropoutKey& key,
                                   const Tensor& positions, GradientSink grad_weight,
                                   GradientSink grad_bias);

}  // namespace ringlet
