// Linear: y = x W^T + b.
#pragma once

#include <cmath>

#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/nn/slices.h"

namespace ringlet::nn {

/// uniform(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), PyTorch's default for Linear and Conv2d.
inline Tensor fan_in_uniform(const Shape& shape, std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return uniform(shape, -bound, bound);
}

/// x (.., in) -> (.., out). May be cut by columns or by rows, as Sliceable describes.
class Linear final : public UnaryModule, public Sliceable {
 public:
  Linear(std::int64_t in, std::int64_t out, bool with_bias = true);
  /// With initial values (out, in) and (out); `bias` may be undefined.
  Linear(Tensor weight, Tensor bias);
  /// Shares parameters of another module.
  Linear(const Parameter& weight, const Parameter& bias);
  const char* kind() const override { return "Linear"; }
  std::shared_ptr<Module> blank_copy(Cloner&) const override;
  bool only_multiplied(const Parameter& parameter) const override { return parameter == weight; }
  Variable forward(const Variable& x) override;
  /// forward(x) between the hooks. If a next function can compute the gradient of the bias, see
  /// autograd::linear; `open_bias` stays undefined where backward computes it.
  Variable operator()(const Variable& x, Variable* open_bias);
  using UnaryModule::operator();
  /// gelu(forward(x)), in one pass. `rows` are those of x on all ranks, see LayerSlices::inputs.
  Variable forward_gelu(const Variable& x, std::int64_t rows = -1);
  std::int64_t pieces(SliceKind kind) const override;
  void slice(SliceKind kind, const SlicesPtr& slices, const Cut& cut) override;

  Parameter weight;  // (out, in)
  Parameter bias;    // (out), or undefined

 private:
  SlicesPtr columns_, rows_;  // at most one is set
};

}  // namespace ringlet::nn
