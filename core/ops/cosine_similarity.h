// The cosine of pairs of rows, each norm at least eps, as torch.nn.functional.cosine_similarity:
//   y = a . b / (max(|a|, eps) max(|b|, eps)).  Inputs f32, f64 or bf16, y f32 (f64).
// The gradient is that of y: a norm below eps is a constant. PyTorch differentiates that norm, too.
// Rows with squares that overflow (above 1.8e19 in f32) may give NaN; PyTorch gives 0.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

inline constexpr double kCosineEps = 1e-8;

struct CosineSimilarityArgs {
  void* y;        // (R)
  const void* a;  // (R, C)
  const void* b;  // (R, C)
  std::int64_t rows;
  std::int64_t columns;
  double eps;
  DType dtype;
};
extern OpKernel<CosineSimilarityArgs> cosine_similarity_kernel;

struct CosineSimilarityBackwardArgs {
  void* grad_a;      // (R, C), may be null
  void* grad_b;      // (R, C), may be null
  const void* grad;  // (R)
  const void* a;     // (R, C)
  const void* b;     // (R, C)
  std::int64_t rows;
  std::int64_t columns;
  double eps;
  DType dtype;
};
extern OpKernel<CosineSimilarityBackwardArgs> cosine_similarity_backward_kernel;

/// a, b (.., C) -> (R), one for each pair of rows.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, double eps = kCosineEps);

struct CosineSimilarityGradients {
  Tensor a, b;  // undefined if not needed
};
CosineSimilarityGradients cosine_similarity_backward(const Tensor& grad, const Tensor& a,
                                                     const Tensor& b, double eps, bool needs_a,
                                                     bool needs_b);

}  // namespace ringlet
