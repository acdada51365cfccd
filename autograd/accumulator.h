// Converts a gradient's sink to the Accumulator of core's backward ops.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/accumulator.h"

namespace ringlet::autograd {

/// The destination of the gradient of `parameter`; undefined if the gradient is not needed.
inline Accumulator accumulator(Gradient& gradient, const Tensor& parameter) {
  if (!parameter.defined() || !gradient.needed()) return {};
  Gradient::Sink sink = gradient.sink(parameter.shape(), parameter.dtype(), parameter.device());
  return {std::move(sink.out), sink.beta};
}

}  // namespace ringlet::autograd
