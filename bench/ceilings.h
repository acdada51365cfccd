// What a device could do at best, measured here and now: multiply-adds that stay in registers (on a
// GPU a large product) and copies of every size.
#pragma once

#include <vector>

#include "ringlet/core/device.h"
#include "ringlet/core/dtype.h"

namespace ringlet::bench {

class Ceilings {
 public:
  /// Measures on all of the device, about a second.
  explicit Ceilings(Device device);

  /// Per second, of products of f32 or bf16.
  double flops(DType dtype) const { return dtype == DType::bf16 ? bf16_flops_ : f32_flops_; }
  /// Bytes per second (read and written) of a copy that moves `bytes` in all.
  double copy_rate(double bytes) const;
  /// The least seconds for this work: the slower of computing and moving.
  double seconds(double flops, double bytes, DType dtype) const;

  struct Copy {
    double bytes;  // read and written
    double rate;
  };
  const std::vector<Copy>& copies() const { return copies_; }

 private:
  void measure_cpu(Device device);
  void measure_device(Device device);

  double f32_flops_ = 0, bf16_flops_ = 0;
  std::vector<Copy> copies_;
};

}  // namespace ringlet::bench
