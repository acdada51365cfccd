// Dense: a linear layer and an activation on embeddings.
#pragma once

#include "ringlet/core/base/names.h"
#include "ringlet/models/modules/sentence_modules.h"
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

}  // namespace ringlet::models::modules
