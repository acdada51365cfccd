// Token embeddings: word + position (+ token type), LayerNorm, dropout.
#pragma once

#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"
#include "ringlet/nn/module.h"

namespace ringlet::models {

class Embeddings final : public nn::Layer<Embeddings> {
 public:
  explicit Embeddings(const EncoderConfig& config);
  const char* kind() const override { return "Embeddings"; }
  bool is_unit() const override { return true; }

  /// (T, H) in `dtype`; token types, if the model has them, are all 0.
  Variable forward(const PackedBatch& batch, DType dtype);

 private:
  EncoderConfig config_;
  nn::Parameter word_, position_, token_type_, norm_weight_, norm_bias_;
};

}  // namespace ringlet::models
