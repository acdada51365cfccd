// MSELoss: the embeddings should be those of a teacher, given with each row. Knowledge
// distillation, or a language learned from translations (Reimers and Gurevych 2020).
#pragma once

#include "ringlet/models/losses/embedding_loss.h"

namespace ringlet::models {

/// Mean over rows, columns and elements of (embedding - label)^2. Every sentence of a row has the
/// row's label, (rows, H) f32. Sentence Transformers' class of this name.
class MSELoss final : public EmbeddingLoss {
 public:
  explicit MSELoss(SentenceEncoder encoder) : EmbeddingLoss(std::move(encoder)) {}
  const char* kind() const override { return "MSELoss"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<MSELoss>(encoder_of(cloner));
  }
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;
};

}  // namespace ringlet::models
