// The measured limits of a device: multiply-adds that stay in registers (on a GPU a large product),
// and copies of every size; the time of repeated work.
#pragma once

#include <functional>
#include <vector>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::bench {

class Ceilings {
 public:
  /// Measures the whole device; takes about a second.
  explicit Ceilings(Device device);

  /// Multiply-add rate, FLOP/s, for f32 or bf16.
  double flops(DType dtype) const { return dtype == DType::bf16 ? bf16_flops_ : f32_flops_; }
  /// Bytes per second (read and written) of a copy that moves `bytes` in total.
  double copy_rate(double bytes) const;
  /// The least seconds for this work: the maximum of computing and moving.
  double seconds(double flops, double bytes, DType dtype) const;

  struct Copy {
    double bytes;  // read and written
    double rate;
  };
  const std::vector<Copy>& copies() const { return copies_; }

 private:
  double f32_flops_ = 0, bf16_flops_ = 0;
  std::vector<Copy> copies_;
};

/// Seconds of one run: the median of batches of runs, about `least` seconds in total. On an
/// asynchronous device a batch starts after all of it is enqueued, so that it has no gaps. Operands
/// that fit into the device's cache are in it, as in a step.
double device_seconds(Device device, const std::function<void()>& run, double least = 0.02);

// By a device's own kernels:
/// FLOP/s of the product of two matrices (n, n) of `dtype`.
double product_rate(Device device, DType dtype, std::int64_t n);
/// `nbytes` bytes, a multiple of 4, that memory cannot compress.
Tensor noise(Device device, std::size_t nbytes);
/// Bytes per second, read and written, of a copy from one tensor of `nbytes` to another.
double copy_rate(Device device, std::size_t nbytes);

}  // namespace ringlet::bench
