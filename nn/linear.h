// Linear: y = x W^T + b.
#pragma once

#include <cmath>

#include "ringlet/autograd/functions/matmul.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// uniform(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), PyTorch's default for Linear and Conv2d.
inline Tensor fan_in_uniform(const Shape& shape, std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return uniform(shape, -bound, bound);
}

/// x (.., in) -> (.., out).
class Linear final : public UnaryModule {
 public:
  Linear(std::int64_t in, std::int64_t out, bool with_bias = true)
      : weight(register_parameter("weight", fan_in_uniform({out, in}, in))) {
    if (with_bias) bias = register_parameter("bias", fan_in_uniform({out}, in));
  }
  /// With initial values (out, in) and (out); `bias` may be undefined.
  Linear(Tensor weight, Tensor bias) : weight(register_parameter("weight", std::move(weight))) {
    if (bias.defined()) this->bias = register_parameter("bias", std::move(bias));
  }
  /// Shares parameters of another module.
  Linear(const Parameter& weight, const Parameter& bias) : weight(weight), bias(bias) {
    register_parameter("weight", weight);
    if (bias) register_parameter("bias", bias);
  }
  const char* kind() const override { return "Linear"; }
  std::shared_ptr<Module> blank_copy(Cloner&) const override {
    return std::make_shared<Linear>(weight.size(1), weight.size(0), bias.defined());
  }
  bool only_multiplied(const Parameter& parameter) const override { return parameter == weight; }
  Variable forward(const Variable& x) override { return autograd::linear(x, weight, bias); }

  Parameter weight;  // (out, in)
  Parameter bias;    // (out), or undefined
};

}  // namespace ringlet::nn
