// Tensors that a forward stores for its backward.
#pragma once

#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

/// Throws "[op] ..." unless `tensor` is as the forward made it: kernels read, and some write, at
/// positions that it gives. Values are checked on a CPU only.
inline void check_saved(const char* op, const char* what, const Tensor& tensor, const Shape& shape,
                        DType dtype, Device device) {
  RINGLET_CHECK(tensor.defined(), "[", op, "] ", what, " is missing");
  check_shape(op, what, tensor, shape);
  RINGLET_CHECK_EQ(tensor.dtype(), dtype, "[", op, "] dtype of ", what);
  RINGLET_CHECK_EQ(tensor.device(), device, "[", op, "] device of ", what);
}

}  // namespace ringlet
