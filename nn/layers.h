// Layers besides Linear and SelfAttention.
#pragma once

#include "ringlet/core/ops/random.h"
#include "ringlet/nn/linear.h"

namespace ringlet::nn {

/// Over the last dimension.
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

/// Over the last dimension, without a mean and a bias (Zhang and Sennrich, 2019).
class RMSNorm final : public UnaryModule {
 public:
  explicit RMSNorm(std::int64_t size, double eps = 1e-6)
      : weight(register_parameter("weight", ones({size}))), eps(eps) {}
  const char* kind() const override { return "RMSNorm"; }
  std::shared_ptr<Module> blank_copy(Cloner&) const override {
    return std::make_shared<RMSNorm>(weight.size(0), eps);
  }
  Variable forward(const Variable& x) override { return autograd::rms_norm(x, weight, eps); }

  Parameter weight;  // (size)
  double eps;
};

/// Dropout, counted by position: the mask depends on the seed, the training step, this module's
/// site in the model and each row's id. It is the same on every rank and device.
class Dropout final : public Layer<Dropout> {
 public:
  explicit Dropout(double p = 0.5) : p(p) {}
  const char* kind() const override { return "Dropout"; }

  /// x (R, ..): R rows of one example each. `positions` (R, 2) i32 identifies the rows (example in
  /// the global batch, 0); if undefined, rows count from 0.
  Variable forward(const Variable& x, const Tensor& positions = {}) {
    if (!training() || p == 0) return x;
    const std::int64_t rows = x.dim() > 0 ? x.size(0) : 1;
    const Variable flat = autograd::view(x, {rows, -1});
    return autograd::view(
        autograd::dropout(flat, default_generator().dropout_key(static_cast<float>(p), site()),
                          positions),
        x.shape());
  }

  double p;
};

/// ids (T) i32 -> (T, size); weights start as normal(0, 1), as in PyTorch.
class Embedding final : public Layer<Embedding> {
 public:
  Embedding(std::int64_t rows, std::int64_t size)
      : weight(register_parameter("weight", normal({rows, size}))) {}
  const char* kind() const override { return "Embedding"; }
  Variable forward(const Tensor& ids) { return autograd::embedding(weight, ids); }

  Parameter weight;  // (rows, size)
};

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
