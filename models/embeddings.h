// Token embeddings: word + position (+ token type), LayerNorm, dropout.
#pragma once

#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"
#include "ringlet/nn/slices.h"

namespace ringlet::models {

class Embeddings final : public nn::Layer<Embeddings>, public nn::Sliceable {
 public:
  explicit Embeddings(const EncoderConfig& config);
  const char* kind() const override { return "Embeddings"; }
  bool is_unit() const override { return true; }

  /// (T, H) in `dtype`; token types, if the model has them, are all 0.
  Variable forward(const PackedBatch& batch, DType dtype);

  /// By words. On one rank the table stays whole: of the slices' sum one term is not zero.
  std::int64_t pieces(nn::SliceKind kind) const override;
  void slice(nn::SliceKind kind, const nn::SlicesPtr& slices,
             const nn::Sliceable::Cut& cut) override;

 private:
  Variable words_of_all_ranks(const Tensor& ids) const;

  EncoderConfig config_;
  nn::Parameter word_, position_, token_type_, norm_weight_, norm_bias_;
  nn::SlicesPtr slices_;  // of word_, among several ranks
};

}  // namespace ringlet::models
