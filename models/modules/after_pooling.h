// The modules after the pooling: Dense, Dropout, LayerNorm and Normalize.
#pragma once

#include "ringlet/autograd/functions.h"
#include "ringlet/core/base/names.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/models/modules/sentence_modules.h"
#include "ringlet/nn/layers.h"
#include "ringlet/nn/linear.h"

namespace ringlet::models::modules {

enum class Activation { gelu, identity, relu, sigmoid, tanh };
/// Classes of torch.nn.
inline constexpr EnumNames<Activation, 5> kActivations{
    "activation", {"GELU", "Identity", "ReLU", "Sigmoid", "Tanh"}};

struct DenseOptions {
  bool bias = true;
  Activation activation = Activation::tanh;
  /// Adds the input to the result, through a second linear layer if the widths differ.
  bool use_residual = false;
};

/// activation(x W' + b), plus the residual if there is one.
class Dense final : public SentenceModule {
 public:
  Dense(std::int64_t in_features, std::int64_t out_features, const DenseOptions& options = {});
  const char* kind() const override { return "Dense"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner&) const override;
  /// Error if `width` is not in_features().
  std::int64_t dimension(std::int64_t width) const override;
  std::string to_json() const override;

  std::int64_t in_features() const { return linear_->weight.size(1); }
  std::int64_t out_features() const { return linear_->weight.size(0); }

 protected:
  Variable forward(const Variable& x, const PackedBatch& batch) override;

 private:
  DenseOptions options_;
  std::shared_ptr<nn::Linear> linear_;
  std::shared_ptr<nn::Linear> residual_;  // null unless the widths differ
};

class Dropout final : public SentenceModule {
 public:
  explicit Dropout(double p = 0.2) : p_(p) {}
  const char* kind() const override { return "Dropout"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner&) const override {
    return std::make_shared<Dropout>(p_);
  }
  std::string to_json() const override;

 protected:
  /// A sentence has the same mask on every number of ranks: its id counts.
  Variable forward(const Variable& x, const PackedBatch& batch) override {
    if (!training()) return x;
    const Tensor& ids = batch.sentence_ids;
    return autograd::dropout(x, default_generator().dropout_key(static_cast<float>(p_), site()),
                             stack({ids, zeros_like(ids)}, 1));
  }

 private:
  double p_;
};

class LayerNorm final : public SentenceModule {
 public:
  explicit LayerNorm(std::int64_t dimension)
      : norm_(register_module("norm", std::make_shared<nn::LayerNorm>(dimension))) {}
  const char* kind() const override { return "LayerNorm"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner&) const override {
    return std::make_shared<LayerNorm>(norm_->weight.size(0));
  }
  std::string to_json() const override {
    return str("{\"dimension\": ", norm_->weight.size(0), '}');
  }

 protected:
  Variable forward(const Variable& x, const PackedBatch&) override { return (*norm_)(x); }

 private:
  std::shared_ptr<nn::LayerNorm> norm_;
};

class Normalize final : public SentenceModule {
 public:
  const char* kind() const override { return "Normalize"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner&) const override {
    return std::make_shared<Normalize>();
  }

 protected:
  Variable forward(const Variable& x, const PackedBatch&) override {
    return autograd::normalize(x);
  }
};

}  // namespace ringlet::models::modules
