// MaxPool2d on NCHW images.
#pragma once

#include "ringlet/autograd/functions/max_pool.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// x (N, C, H, W) -> (N, C, H', W'): the largest element of each kernel x kernel square; stride 0
/// means kernel.
class MaxPool2d final : public Layer<MaxPool2d> {
 public:
  explicit MaxPool2d(std::int64_t kernel, std::int64_t stride = 0)
      : kernel(kernel), stride(stride) {}
  const char* kind() const override { return "MaxPool2d"; }
  Variable forward(const Variable& x) { return autograd::max_pool2d(x, kernel, stride); }

  std::int64_t kernel;
  std::int64_t stride;
};

}  // namespace ringlet::nn
