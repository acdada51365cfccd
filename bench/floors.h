// What a kernel call has to do at least, read off its arguments: the multiply-adds of its products
// and the bytes that must be read and written, each once.
#pragma once

#include <string>

#include "ringlet/core/device.h"
#include "ringlet/core/dtype.h"

namespace ringlet::bench {

struct Floor {
  std::string label;  // the kernel, for products with their form and sizes: "matmul NT Tx768x768"
  double flops = 0;   // two for a multiply-add; 0 where there are no products
  double bytes = 0;
  DType dtype = DType::f32;  // of the products
};

/// Of a call that a KernelObserver sees, while its operands are there: ids and lengths are read,
/// which waits for a device that runs behind. Kernels that no step of an encoder runs have none:
/// zeros.
Floor floor_of(const std::string& kernel, const void* args, Device device);

}  // namespace ringlet::bench
