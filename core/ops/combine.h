// Combines the same elements of several ranks: the arithmetic of collectives.
#pragma once

#include <span>

#include "ringlet/core/device/device_objects.h"
#include "ringlet/core/device/kernel.h"
#include "ringlet/core/ops/sum_tree.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

struct CombineArgs {
  void* out;                   // (n), may be one of the sources
  const void* const* sources;  // `count` arrays of (n)
  int count;
  std::int64_t n;
  CombineOp op;
  double scale;
  DType dtype;
  /// How many additions of the top two follow each source, which is a node of a tree
  /// (sum_tree.h). Null: the sources are the leaves of a tree.
  const std::uint8_t* additions = nullptr;

  RINGLET_HOST_DEVICE int additions_after(int source) const {
    return additions ? additions[source] : ringlet::additions_after(source, count);
  }
};
/// Pointers are aligned to their elements; on a CPU any alignment is valid. Runs in the calling
/// thread: a collective and a device's threads must not wait for each other.
extern OpKernel<CombineArgs> combine_kernel;

/// out = scale * (sources[0] + sources[1] + …), added by the tree over them. With CombineOp::max it
/// is scale * their maximum, and NaN is the largest. Sums of f32, bf16 and f16 are in f32 and
/// rounded once, of f64 in f64; integers wrap around and take only scale 1. All of one shape, dtype
/// and device.
void combine(Tensor& out, std::span<const Tensor> sources, CombineOp op = CombineOp::sum,
             double scale = 1);

}  // namespace ringlet
