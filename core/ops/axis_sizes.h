// What ops along one axis see of a tensor.
#pragma once

#include "ringlet/core/tensor.h"

namespace ringlet {

/// A shape seen as (outer, n, inner) around one axis.
struct AxisSizes {
  std::int64_t outer = 1;
  std::int64_t n = 1;
  std::int64_t inner = 1;

  AxisSizes(const Shape& shape, int axis) {
    for (int i = 0; i < shape.dim(); ++i) (i < axis ? outer : i == axis ? n : inner) *= shape[i];
  }
};

/// Of one element of x.
inline std::int64_t element_bytes(const Tensor& x) {
  return static_cast<std::int64_t>(itemsize(x.dtype()));
}

}  // namespace ringlet
