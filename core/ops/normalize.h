// Rows scaled to length 1: y = x / max(|x|, eps) over the last dimension, as
// torch.nn.functional.normalize. Takes f32, f64 and bf16; norms are f32 (f64). As in PyTorch, |x|
// is infinite if the squares of several columns overflow (above 1.8e19 in f32), and the row becomes
// 0. Its gradient is NaN; PyTorch gives 0.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

inline constexpr double kNormalizeEps = 1e-12;

struct NormalizeArgs {
  void* y;        // (R, C)
  void* norm;     // (R)
  const void* x;  // (R, C)
  std::int64_t rows;
  std::int64_t columns;
  double eps;
  DType dtype;
};
extern OpKernel<NormalizeArgs> normalize_kernel;

struct NormalizeBackwardArgs {
  void* grad_x;      // (R, C)
  const void* grad;  // (R, C)
  const void* x;     // (R, C)
  const void* norm;  // (R)
  std::int64_t rows;
  std::int64_t columns;
  double eps;
  DType dtype;
};
extern OpKernel<NormalizeBackwardArgs> normalize_backward_kernel;

struct NormalizeOutput {
  Tensor y;     // x's shape
  Tensor norm;  // (R) |x|
};
/// x (.., C), viewed as R rows.
NormalizeOutput normalize(const Tensor& x, double eps = kNormalizeEps);
/// grad_x; if |x| is below eps, the divisor is a constant.
Tensor normalize_backward(const Tensor& grad, const Tensor& x, const Tensor& norm, double eps);

}  // namespace ringlet
