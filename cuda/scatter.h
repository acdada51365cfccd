// The kernels of scatter_add and scatter (core/ops/index.h), for use inside other ops.
#pragma once

#include "ringlet/core/ops/index.h"

namespace ringlet::cuda {

/// Sums are in the source's order, rounded after each addition; an index out of range adds nothing.
void scatter_add(const ScatterAddArgs& args, Device device);
void scatter(const ScatterArgs& args, Device device);

}  // namespace ringlet::cuda
