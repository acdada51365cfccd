// The positions of the operands of an output element, for broadcasting and permutation.
#pragma once

#include "ringlet/core/ops/elementwise.h"
#include "ringlet/cuda/divider.h"

namespace ringlet::cuda {

/// Sizes of the output and, per operand, strides in elements.
template <int kOperands>
struct Strided {
  int dim = 0;
  std::int64_t numel = 1;
  Divider size[Shape::kMaxDim];
  std::int64_t stride[kOperands][Shape::kMaxDim];

  /// Adds a dimension inside those before it.
  void add(std::int64_t length, const std::int64_t (&strides)[kOperands]) {
    size[dim] = Divider(length);
    for (int k = 0; k < kOperands; ++k) stride[k][dim] = strides[k];
    ++dim;
    numel *= length;
  }

  /// The operands' elements for output element `index`.
  RINGLET_HOST_DEVICE void offsets(std::int64_t index, std::int64_t (&offset)[kOperands]) const {
    for (int k = 0; k < kOperands; ++k) offset[k] = 0;
    for (int i = dim - 1; i > 0; --i) {
      const Division at = divide(index, size[i]);
      for (int k = 0; k < kOperands; ++k) offset[k] += at.remainder * stride[k][i];
      index = at.quotient;
    }
    if (dim > 0)
      for (int k = 0; k < kOperands; ++k) offset[k] += index * stride[k][0];
  }
};

template <int kOperands>
Strided<kOperands> strided(const BroadcastPlan& plan) {
  Strided<kOperands> out;
  for (int i = 0; i < plan.dim; ++i) {
    std::int64_t strides[kOperands];
    for (int k = 0; k < kOperands; ++k) strides[k] = plan.stride[k][i];
    out.add(plan.size[i], strides);
  }
  return out;
}

}  // namespace ringlet::cuda
