// The minimum work of a kernel call, from its arguments: the multiply-adds of its products, and the
// bytes that it must access, each once.
#pragma once

#include <string>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/device.h"

namespace ringlet::bench {

struct Floor {
  double flops = 0;  // two per multiply-add; 0 without products
  double bytes = 0;
  DType dtype = DType::f32;  // of the products
  std::string label = {};    // the kernel; for products also form and sizes: "matmul NT Tx768x768"

  void add(const Floor& other) {
    flops += other.flops, bytes += other.bytes;
    if (other.flops > 0) dtype = other.dtype;
  }
};

/// For a call seen by a KernelObserver, while its operands exist. Reads ids and lengths, which
/// synchronises with an asynchronous device. Zeros for kernels that no encoder step runs.
Floor floor_of(const std::string& kernel, const void* args, Device device);

}  // namespace ringlet::bench
