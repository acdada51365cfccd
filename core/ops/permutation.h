// A permutation with as few dimensions as possible.
#pragma once

#include "ringlet/core/base/host_device.h"
#include "ringlet/core/ops/index.h"

namespace ringlet {

/// Merges dimensions that are adjacent in both the input and the output, and drops those of size 1.
/// If any dimension is left, one has in_stride 1.
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
