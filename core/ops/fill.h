// Creates and converts elements: fill, arange, cast.
#pragma once

#include "ringlet/core/host_device.h"
#include "ringlet/core/kernel.h"
#include "ringlet/core/tensor.h"

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
extern Kernel<FillArgs> fill_kernel;

struct CastArgs {
  void* out;       // (n)
  const void* in;  // (n)
  std::int64_t n;
  DType out_dtype;
  DType in_dtype;
};
extern Kernel<CastArgs> cast_kernel;

/// Sets every element to `value`.
void fill(Tensor& out, double value);

/// out[i] = in[i] converted. Floating to integer truncates towards zero; values out of range become
/// the nearest in range, and NaN becomes 0.
void cast(Tensor& out, const Tensor& in);

/// start, start + step, …, below end (above it for a negative step).
Tensor arange(double start, double end, double step = 1, DType dtype = DType::i64,
              Device device = default_device());

}  // namespace ringlet
