// What this machine could do at best, measured here and now: multiply-adds that stay in registers
// and copies of every size.
#pragma once

#include <vector>

namespace ringlet::bench {

class Ceilings {
 public:
  /// Measures on all threads of cpu:0, about a second.
  Ceilings();

  double flops() const { return flops_; }  // f32, per second
  /// Bytes per second (read and written) of memcpy where a copy moves `bytes` in all.
  double copy_rate(double bytes) const;
  /// The least seconds for this work: the slower of computing and moving.
  double seconds(double flops, double bytes) const;

  struct Copy {
    double bytes;  // read and written
    double rate;
  };
  const std::vector<Copy>& copies() const { return copies_; }

 private:
  double flops_ = 0;
  std::vector<Copy> copies_;
};

}  // namespace ringlet::bench
