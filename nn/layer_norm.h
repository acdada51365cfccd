// LayerNorm over the last dimension.
#pragma once

#include "ringlet/autograd/functions/layer_norm.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

class LayerNorm final : public UnaryModule {
 public:
  explicit LayerNorm(std::int64_t size, double eps = 1e-5)
      : weight(register_parameter("weight", ones({size}))),
        bias(register_parameter("bias", zeros({size}))),
        eps(eps) {}
  const char* kind() const override { return "LayerNorm"; }
  std::shared_ptr<Module> blank_copy(Cloner&) const override {
    return std::make_shared<LayerNorm>(weight.size(0), eps);
  }
  Variable forward(const Variable& x) override {
    return autograd::layer_norm(x, weight, bias, eps);
  }

  Parameter weight;  // (size)
  Parameter bias;    // (size)
  double eps;
};

}  // namespace ringlet::nn
