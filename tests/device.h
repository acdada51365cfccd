// Which device a program's tests run on.
#pragma once

#include "ringlet/core/device.h"

namespace ringlet {

/// Whether NCCL's place is taken (fake_nccl.h), by what takes ranks that share a device, too.
inline bool has_fake_nccl = false;

/// Whether an element of a product has the same bits among any other rows: on a GPU an algorithm is
/// chosen for each shape, and two of them are each within their own bound of what is exact.
inline bool has_shape_free_products = true;

/// For tests of what only a CPU has, in a program that runs on another device:
///   TEST_CASE_FIXTURE(OnCpu, "...")
/// Those that are not to run in such a program at all are of the suite "host" (main.cpp).
class OnCpu {
 public:
  OnCpu() { set_default_device(Device{}); }
  ~OnCpu() { set_default_device(before_); }
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;

 private:
  Device before_ = default_device();
};

}  // namespace ringlet
