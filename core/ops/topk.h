// The largest elements along one axis: argmax, argmin and topk. The first of equal elements wins;
// NaN is larger than any number, as in PyTorch. Indices are i64.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

struct TopKArgs {
  void* values;           // (outer, k, inner); may be null
  std::int64_t* indices;  // (outer, k, inner)
  const void* in;         // (outer, n, inner)
  std::int64_t outer;
  std::int64_t n;
  std::int64_t inner;
  std::int64_t k;  // 1 <= k <= n
  bool smallest;   // then NaN is smaller than any number
  DType dtype;
};
extern Kernel<TopKArgs> topk_kernel;

struct TopK {
  Tensor values;   // x's shape with k in place of the axis
  Tensor indices;  // the same shape, i64
};

/// The k largest along `axis`, in descending order; 0 <= k <= x.size(axis).
TopK topk(const Tensor& x, std::int64_t k, int axis = -1);

/// The index of the largest (smallest) element; throws if the axis is empty.
Tensor argmax(const Tensor& x, int axis, bool keepdim = false);
Tensor argmin(const Tensor& x, int axis, bool keepdim = false);

}  // namespace ringlet
