// softmax and log_softmax over the last axis, and their gradients. f32, f64, or bf16 with f32 sums.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

struct SoftmaxArgs {
  void* out;       // (rows, columns)
  const void* in;  // (rows, columns)
  std::int64_t rows;
  std::int64_t columns;
  bool log;
  DType dtype;
};
extern OpKernel<SoftmaxArgs> softmax_kernel;

struct SoftmaxBackwardArgs {
  void* grad_x;      // (rows, columns)
  const void* grad;  // (rows, columns)
  const void* y;     // (rows, columns), the forward's result
  std::int64_t rows;
  std::int64_t columns;
  bool log;
  DType dtype;
};
extern OpKernel<SoftmaxBackwardArgs> softmax_backward_kernel;

/// exp(x - max) / sum of exp(x - max)
Tensor softmax(const Tensor& x);
/// x - log(sum of exp(x))
Tensor log_softmax(const Tensor& x);
/// y (grad - sum of grad y), from softmax's result y
Tensor softmax_backward(const Tensor& grad, const Tensor& y);
/// grad - exp(y) sum of grad, from log_softmax's result y
Tensor log_softmax_backward(const Tensor& grad, const Tensor& y);

}  // namespace ringlet
