// SoftmaxLoss: classifies a pair from (u, v, |u - v|). Reimers and Gurevych, Sentence-BERT, 2019.
#pragma once

#include "ringlet/models/losses/embedding_loss.h"
#include "ringlet/nn/linear.h"

namespace ringlet::models {

/// Cross-entropy of Linear(3 H, labels)(u, v, |u - v|); batches are pairs with i64 class labels.
class SoftmaxLoss final : public EmbeddingLoss {
 public:
  SoftmaxLoss(SentenceEncoder encoder, std::int64_t labels);
  const char* kind() const override { return "SoftmaxLoss"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<SoftmaxLoss>(encoder_of(cloner), num_labels());
  }

  Variable logits(const PackedBatch& batch);  // (rows, labels)
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;
  std::int64_t num_labels() const { return classifier_->weight.size(0); }

 private:
  Variable classify(const Variable& embeddings, const PackedBatch& batch) const;

  std::shared_ptr<nn::Linear> classifier_;
};

}  // namespace ringlet::models
