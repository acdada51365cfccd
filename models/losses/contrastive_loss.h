// ContrastiveLoss and OnlineContrastiveLoss: pairs with label 1 should be near, others apart.
// Hadsell et al., Dimensionality Reduction by Learning an Invariant Mapping, 2006.
#pragma once

#include "ringlet/models/losses/distance.h"
#include "ringlet/models/losses/embedding_loss.h"

namespace ringlet::models {

/// The margin is that of pairs with label 0.
inline constexpr MarginOptions kContrastiveMargin{.distance = Distance::cosine, .margin = 0.5};

/// Mean over rows of (y D^2 + (1 - y) max(0, margin - D)^2) / 2; batches are pairs with labels or
/// scores y from 0 to 1.
class ContrastiveLoss final : public EmbeddingLoss {
 public:
  explicit ContrastiveLoss(SentenceEncoder encoder, MarginOptions options = kContrastiveMargin)
      : EmbeddingLoss(std::move(encoder)), options_(options) {}
  const char* kind() const override { return "ContrastiveLoss"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<ContrastiveLoss>(encoder_of(cloner), options_);
  }
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;

 private:
  std::string settings() const override { return options_.settings(); }

  MarginOptions options_;
};

/// The sum of D^2 over positives that are farther than some negative. Negatives that are nearer
/// than some positive add max(0, margin - D)^2. The rows are those that enum Negatives tells. Where
/// a kind is missing, the mean of the other's distances takes its place.
class OnlineContrastiveLoss final : public EmbeddingLoss {
 public:
  explicit OnlineContrastiveLoss(SentenceEncoder encoder,
                                 MarginOptions options = kContrastiveMargin)
      : EmbeddingLoss(std::move(encoder)), options_(options) {}
  const char* kind() const override { return "OnlineContrastiveLoss"; }
  /// It selects rows on the host.
  bool is_capturable() const override { return false; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<OnlineContrastiveLoss>(encoder_of(cloner), options_);
  }
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;

 protected:
  bool compares_rows() const override { return true; }
  std::string settings() const override { return options_.settings(); }

 private:
  MarginOptions options_;
};

}  // namespace ringlet::models
