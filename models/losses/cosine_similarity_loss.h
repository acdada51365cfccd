// CosineSimilarityLoss: the cosine of a pair's embeddings should be its score.
#pragma once

#include "ringlet/models/losses/loss.h"
#include "ringlet/models/sentence_encoder.h"

namespace ringlet::models {

/// Mean over rows of (cos(u, v) - score)^2; batches are pairs with f32 scores.
class CosineSimilarityLoss final : public Loss {
 public:
  explicit CosineSimilarityLoss(SentenceEncoder encoder) : encoder_(std::move(encoder)) {
    register_module("", encoder_.transformer());
  }
  const char* kind() const override { return "CosineSimilarityLoss"; }

 protected:
  Variable forward(const PackedBatch& batch) override;

 private:
  SentenceEncoder encoder_;
};

}  // namespace ringlet::models
