// What a device beside the CPU can do at best, measured by its own kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringlet/core/device.h"
#include "ringlet/core/dtype.h"

namespace ringlet::bench {

/// FLOP/s of the product of two matrices (n, n) of `dtype`.
double product_rate(Device device, DType dtype, std::int64_t n);
/// Bytes per second, read and written, of copying a tensor of `nbytes` to another.
double copy_rate(Device device, std::size_t nbytes);

}  // namespace ringlet::bench
