// CosineSimilarityLoss: the cosine of a pair's embeddings should be its score.
#pragma once

#include "ringlet/models/losses/embedding_loss.h"

namespace ringlet::models {

/// Mean over rows of (cos(u, v) - score)^2; batches are pairs with f32 scores.
class CosineSimilarityLoss final : public EmbeddingLoss {
 public:
  explicit CosineSimilarityLoss(SentenceEncoder encoder) : EmbeddingLoss(std::move(encoder)) {}
  const char* kind() const override { return "CosineSimilarityLoss"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<CosineSimilarityLoss>(encoder_of(cloner));
  }
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;
};

}  // namespace ringlet::models
