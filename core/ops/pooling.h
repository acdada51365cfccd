// From the tokens of packed sentences to one row each: their mean, their first token or their
// maximum. Sums and results are f32 for f32 and bf16 tokens, f64 for f64.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

enum class PoolingMode { mean, cls, max };

struct PoolingArgs {
  void* out;                       // (S, C)
  std::int32_t* argmax;            // (S, C) tokens, max only
  const void* x;                   // (T, C)
  const std::int32_t* cu_seqlens;  // (S + 1)
  const std::int32_t* lengths;     // (S) tokens that count, null means all
  std::int64_t sentences;
  std::int64_t tokens;
  std::int64_t columns;
  PoolingMode mode;
  DType dtype;  // of x
};
extern OpKernel<PoolingArgs> pooling_kernel;

struct PoolingBackwardArgs {
  void* grad_x;                    // (T, C)
  const void* grad;                // (S, C)
  const std::int32_t* argmax;      // (S, C), max only
  const std::int32_t* cu_seqlens;  // (S + 1)
  const std::int32_t* lengths;     // (S) tokens that count, null means all
  std::int64_t sentences;
  std::int64_t tokens;
  std::int64_t columns;
  PoolingMode mode;
  DType dtype;  // of grad_x
};
extern OpKernel<PoolingBackwardArgs> pooling_backward_kernel;

struct PoolingOutput {
  Tensor y;       // (S, C)
  Tensor argmax;  // (S, C) i32, the first token that has the maximum; defined for max only
};
/// x (T, C), cu_seqlens (S + 1). The mean divides by max(tokens, 1e-9) as Sentence Transformers
/// does, so an empty sentence has mean 0; it has no first token and no maximum, which throws (on a
/// GPU they are NaN). With `lengths` (S) i32 only the first tokens of each
/// sentence count, the rest is padding.
PoolingOutput pooling(PoolingMode mode, const Tensor& x, const Tensor& cu_seqlens,
                      const Tensor& lengths = {});
/// grad (S, C) -> (T, C) in `dtype`, that of x. The maximum's gradient goes to its first token.
Tensor pooling_backward(PoolingMode mode, const Tensor& grad, const Tensor& argmax,
                        const Tensor& cu_seqlens, std::int64_t tokens, DType dtype,
                        const Tensor& lengths = {});

}  // namespace ringlet
