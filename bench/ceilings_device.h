// The limits of a device other than the CPU, measured with its own kernels, and the data copied for
// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringlet/core/tensor.h"

namespace ringlet::bench {

/// FLOP/s of the product of two matrices (n, n) of `dtype`.
double product_rate(Device device, DType dtype, std::int64_t n);
/// `nbytes` bytes, a multiple of 4, that memory cannot compress.
Tensor noise(Device device, std::size_t nbytes);
/// Bytes per second, read and written, of a copy from one tensor of `nbytes` to another.
double copy_rate(Device device, std::size_t nbytes);

}  // namespace ringlet::bench
