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
  bool is_capturable() const override { return true; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<CosineSimilarityLoss>(encoder_.around(cloner(encoder_.transformer())));
  }

  /// The loss of given embeddings, (S, H) in the order of the batch's sentences.
  static Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch);

 protected:
  Variable forward(const PackedBatch& batch) override;

 private:
  SentenceEncoder encoder_;
};

}  // namespace ringlet::models
