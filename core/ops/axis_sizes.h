// What ops along one axis see of a tensor.
#pragma once

#include "ringlet/core/tensor.h"

namespace ringlet {

/// A shape seen as (outer, n, inner) around one axis, or around [first, last] as one.
struct AxisSizes {
  std::int64_t outer = 1;
  std::int64_t n = 1;
  std::int64_t inner = 1;

  AxisSizes(const Shape& shape, int axis) : AxisSizes(shape, axis, axis) {}
  AxisSizes(const Shape& shape, int first, int last) {
    for (int i = 0; i < shape.dim(); ++i) (i < first ? outer : i <= last ? n : inner) *= shape[i];
  }
};

/// Of one element of x.
inline std::int64_t element_bytes(const Tensor& x) {
  return static_cast<std::int64_t>(itemsize(x.dtype()));
}

}  // namespace ringlet
