// TripletLoss: an anchor should be nearer to its positive than to its negative, by a margin.
#pragma once

#include "ringlet/models/losses/distance.h"
#include "ringlet/models/losses/embedding_loss.h"

namespace ringlet::models {

/// Mean over rows of max(0, D(anchor, positive) - D(anchor, negative) + margin).
class TripletLoss final : public EmbeddingLoss {
 public:
  explicit TripletLoss(SentenceEncoder encoder, MarginOptions options = {})
      : EmbeddingLoss(std::move(encoder)), options_(options) {}
  const char* kind() const override { return "TripletLoss"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<TripletLoss>(encoder_of(cloner), options_);
  }
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;

 private:
  std::string settings() const override { return options_.settings(); }

  MarginOptions options_;
};

}  // namespace ringlet::models
