// MultipleNegativesRankingLoss: each anchor should find its positive among all candidates of the
// batch. Henderson et al., Efficient Natural Language Response Suggestion, 2017.
#pragma once

#include "ringlet/models/losses/loss.h"
#include "ringlet/models/sentence_encoder.h"

namespace ringlet::models {

/// Cross-entropy of scale * cos(anchor, candidate) with the row's own positive as target. Rows are
/// (anchor, positive) or (anchor, positive, negative); the candidates are all positives, then all
/// negatives, of this batch. Needs at least two rows, with negatives one.
class MultipleNegativesRankingLoss final : public Loss {
 public:
  explicit MultipleNegativesRankingLoss(SentenceEncoder encoder, double scale = 20)
      : encoder_(std::move(encoder)), scale_(scale) {
    register_module("", encoder_.transformer());
  }
  const char* kind() const override { return "MultipleNegativesRankingLoss"; }
  bool is_capturable() const override { return true; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<MultipleNegativesRankingLoss>(
        encoder_.around(cloner(encoder_.transformer())), scale_);
  }
  std::int64_t min_rows(std::size_t, std::int64_t columns) const override {
    return columns > 2 ? 1 : 2;
  }

  /// The loss of given embeddings, (S, H) in the order of the batch's sentences.
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const;

 protected:
  Variable forward(const PackedBatch& batch) override;

 private:
  SentenceEncoder encoder_;
  double scale_;
};

}  // namespace ringlet::models
