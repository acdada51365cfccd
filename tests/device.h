// The device of a program's tests.
#pragma once

#include "ringlet/core/device/device.h"

namespace ringlet {

/// Whether fake_nccl.h replaces NCCL; its ranks may also share a device.
inline bool has_fake_nccl = false;

/// Whether an element of a product has the same bits among any other rows. Not on a GPU: algorithms
/// are chosen by shape, and two of them differ within their error bounds.
inline bool has_shape_free_products = true;

/// For tests of CPU-only features, in a program that runs on another device:
///   TEST_CASE_FIXTURE(OnCpu, "...")
/// Tests that must not run in such a program at all are in the suite "host" (main.cpp).
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
