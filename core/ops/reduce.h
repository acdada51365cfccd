// Reductions over dimensions. Floats are added in vectors of fixed width, so the bits do not depend
// on the number of threads; f32 and bf16 sums are kept in f32, f64 in f64.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

enum class ReduceOp : std::uint8_t { sum, mean, max, min };
inline constexpr ReduceOp kLastReduceOp = ReduceOp::min;
const char* name(ReduceOp op);

struct ReduceArgs {
  void* out;       // (outer, inner)
  const void* in;  // (outer, n, inner)
  std::int64_t outer;
  std::int64_t n;
  std::int64_t inner;
  ReduceOp op;
  DType dtype;
};
extern OpKernel<ReduceArgs> reduce_kernel;

/// Reduces over `axes` (all if empty); negative axes count from the end. max and min of no elements
/// throw; their sum is 0 and their mean NaN. `keepdim` keeps reduced dimensions with size 1.
Tensor reduce(ReduceOp op, const Tensor& x, std::vector<int> axes, bool keepdim = false);

inline Tensor sum(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false) {
  return reduce(ReduceOp::sum, x, std::move(axes), keepdim);
}
inline Tensor mean(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false) {
  return reduce(ReduceOp::mean, x, std::move(axes), keepdim);
}
inline Tensor max(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false) {
  return reduce(ReduceOp::max, x, std::move(axes), keepdim);
}
inline Tensor min(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false) {
  return reduce(ReduceOp::min, x, std::move(axes), keepdim);
}

/// The index (i64) of the largest or smallest element along `axis`; throws if the axis is empty.
/// The first of equal elements wins; NaN wins over all numbers, as in PyTorch.
Tensor argmax(const Tensor& x, int axis, bool keepdim = false);
Tensor argmin(const Tensor& x, int axis, bool keepdim = false);

/// Element i is the sum of the elements 0..i of `axis`, or of those from i on if `reverse`. It
/// takes log2(n) passes; an element adds another one at a distance that doubles.
Tensor cumsum(const Tensor& x, int axis, bool reverse = false);

/// Sums over the dimensions along which `shape` broadcasts to x's: the gradient of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace ringlet
