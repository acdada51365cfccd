// The kernels of full, fill_, arange, to and copy_ of a tensor (core/tensor/tensor.h).
#pragma once

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/base/host_device.h"
#include "ringlet/core/device/kernel.h"

namespace ringlet {

struct FillArgs {
  void* out;  // (n)
  std::int64_t n;
  double start;  // out[i] = filled(start, step, i), rounded once
  double step;
  DType dtype;
};
/// start + i * step; with step 0 exactly `start`, even if it is -0.
RINGLET_HOST_DEVICE double filled(double start, double step, std::int64_t i) {
  return step == 0 ? start : start + static_cast<double>(i) * step;
}
extern OpKernel<FillArgs> fill_kernel;

/// out[i] = in[i] converted. Floating to integer truncates towards zero; values out of range become
/// the nearest in range, and NaN becomes 0.
struct CastArgs {
  void* out;       // (n)
  const void* in;  // (n)
  std::int64_t n;
  DType out_dtype;
  DType in_dtype;
};
extern OpKernel<CastArgs> cast_kernel;

}  // namespace ringlet
