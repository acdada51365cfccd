// Conv2d on NCHW images.
#pragma once

#include "ringlet/autograd/functions/convolution.h"
#include "ringlet/nn/linear.h"

namespace ringlet::nn {

/// x (N, in, H, W) -> (N, out, H', W').
class Conv2d final : public Layer<Conv2d> {
 public:
  Conv2d(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1,
         std::int64_t padding = 0)
      : weight(register_parameter("weight",
                                  fan_in_uniform({out, in, kernel, kernel}, in * kernel * kernel))),
        bias(register_parameter("bias", fan_in_uniform({out}, in * kernel * kernel))),
        stride(stride),
        padding(padding) {}
  const char* kind() const override { return "Conv2d"; }
  Variable forward(const Variable& x) {
    return autograd::conv2d(x, weight, bias, {.stride = stride, .padding = padding});
  }

  Parameter weight;  // (out, in, kernel, kernel)
  Parameter bias;    // (out)
  std::int64_t stride;
  std::int64_t padding;
};

}  // namespace ringlet::nn
