// Cross-entropy: log_softmax and negative log-likelihood in one pass over the logits.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

struct CrossEntropyArgs {
  void* loss;          // () f32, or f64 for f64
  void* lse;           // (rows, 2) likewise
  const void* logits;  // (rows, classes)
  const void* labels;  // (rows) i64 or i32
  std::int64_t rows;
  std::int64_t classes;
  double divisor;
  DType dtype;
  DType label_dtype;
};
extern OpKernel<CrossEntropyArgs> cross_entropy_kernel;

struct CrossEntropyBackwardArgs {
  void* grad_logits;   // (rows, classes)
  const void* grad;    // () f32, or f64 for f64
  const void* logits;  // (rows, classes)
  const void* labels;  // (rows)
  const void* lse;     // (rows, 2)
  std::int64_t rows;
  std::int64_t classes;
  double divisor;
  DType dtype;
  DType label_dtype;
};
extern OpKernel<CrossEntropyBackwardArgs> cross_entropy_backward_kernel;

struct CrossEntropyOutput {
  Tensor loss;  // ()
  /// (R, 2), for the gradient: a row's maximum m and the sum of exp(logits - m). In one number, as
  /// m + log(sum), the logarithm would be rounded away beside large logits.
  Tensor lse;
};
/// The sum over rows of lse - logits[label], divided by `divisor`: the rows of the global batch.
/// The losses of its parts then add up to its mean. logits (R, C); labels (R) i64 or i32; rows are
/// summed in f64, in one fixed order. A label outside [0, C) throws with its row. A GPU makes the
/// loss and the row's gradient NaN, and the next copy to the host throws. No rows give 0.
CrossEntropyOutput cross_entropy(const Tensor& logits, const Tensor& labels, double divisor);
/// (softmax - onehot) grad / divisor, in logits' dtype; grad () as loss.
Tensor cross_entropy_backward(const Tensor& grad, const Tensor& logits, const Tensor& labels,
                              const Tensor& lse, double divisor);

}  // namespace ringlet
