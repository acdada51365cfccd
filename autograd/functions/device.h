// to: a copy on another device. The gradient is copied back.
#pragma once

#include "ringlet/autograd/node.h"

namespace ringlet::autograd {

/// x itself if it is there already or undefined. Both devices' streams are ordered; the host does
/// not wait, unless one of the devices is a CPU.
inline Variable to(const Variable& x, Device device) {
  if (!x || x.device() == device) return x;
  return record(
      "to", x.tensor().to(device), {x},
      [from = x.device()](const Tensor& grad, Gradients& grads) { grads[0].set(grad.to(from)); });
}

}  // namespace ringlet::autograd
