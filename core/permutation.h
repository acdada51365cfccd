// A permutation's dimensions, as few as tell its kernels all.
#pragma once

#include "ringlet/core/host_device.h"
#include "ringlet/core/ops/index.h"

namespace ringlet {

/// Neighbours in the output that are neighbours in the input too become one dimension, and those of
/// one element none. What is left has a dimension with in_stride 1, unless there is none.
RINGLET_HOST_DEVICE PermuteArgs merged(const PermuteArgs& args) {
  PermuteArgs out = args;
  out.dim = 0;
  for (int i = 0; i < args.dim; ++i) {
    if (args.sizes[i] == 1) continue;
    const int last = out.dim - 1;
    if (last >= 0 && out.in_strides[last] == args.in_strides[i] * args.sizes[i]) {
      out.sizes[last] *= args.sizes[i];
      out.in_strides[last] = args.in_strides[i];
    } else {
      out.sizes[out.dim] = args.sizes[i];
      out.in_strides[out.dim++] = args.in_strides[i];
    }
  }
  return out;
}

}  // namespace ringlet
