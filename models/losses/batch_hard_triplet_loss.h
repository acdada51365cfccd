// BatchHardTripletLoss: each text against the farthest of its class and the nearest of another.
// Hermans et al., In Defense of the Triplet Loss for Person Re-Identification, 2017.
#pragma once

#include "ringlet/models/losses/distance.h"
#include "ringlet/models/losses/embedding_loss.h"

namespace ringlet::models {

/// Mean over rows of max(0, hp - hn + margin): hp is the largest distance to a text with the row's
/// label, or 0 without one; hn is the smallest distance to another label, or the largest distance
/// without one. Rows are one text with a class label, among the rows that Negatives tells. Batches
/// need several rows of each label (BatchSampler::group_by_label).
class BatchHardTripletLoss final : public EmbeddingLoss {
 public:
  /// The distance is euclidean or cosine.
  explicit BatchHardTripletLoss(SentenceEncoder encoder, MarginOptions options = {});
  const char* kind() const override { return "BatchHardTripletLoss"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<BatchHardTripletLoss>(encoder_of(cloner), options_);
  }
  std::int64_t min_rows(std::size_t, std::int64_t) const override { return 2; }
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;

 protected:
  bool compares_rows() const override { return true; }
  std::string settings() const override { return options_.settings(); }

 private:
  MarginOptions options_;
};

}  // namespace ringlet::models
