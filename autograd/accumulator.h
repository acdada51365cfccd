// From a gradient's sink to what the backward ops of core write to.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/accumulator.h"

namespace ringlet::autograd {

/// Where the gradient of a parameter like `parameter` goes; undefined when nobody wants it.
inline Accumulator accumulator(Gradient& gradient, const Tensor& parameter) {
  if (!parameter.defined() || !gradient.needed()) return {};
  Gradient::Sink sink = gradient.sink(parameter.shape(), parameter.dtype(), parameter.device());
  return {std::move(sink.out), sink.beta};
}

}  // namespace ringlet::autograd
