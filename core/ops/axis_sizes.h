// The sizes of a tensor around one axis.
#pragma once

#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

/// A shape as (outer, n, inner): n is the size of one axis, or of the axes [first, last] merged.
struct AxisSizes {
  std::int64_t outer = 1;
  std::int64_t n = 1;
  std::int64_t inner = 1;

  AxisSizes(const Shape& shape, int axis) : AxisSizes(shape, axis, axis) {}
  AxisSizes(const Shape& shape, int first, int last) {
    for (int i = 0; i < shape.dim(); ++i) (i < first ? outer : i <= last ? n : inner) *= shape[i];
  }
};

/// Bytes per element of x.
inline std::int64_t element_bytes(const Tensor& x) {
  return static_cast<std::int64_t>(itemsize(x.dtype()));
}

}  // namespace ringlet
