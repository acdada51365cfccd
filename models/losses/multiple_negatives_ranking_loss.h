// MultipleNegativesRankingLoss: each anchor should find its positive among all candidates of the
// batch. Henderson et al., Efficient Natural Language Response Suggestion, 2017.
#pragma once

#include "ringlet/models/losses/embedding_loss.h"

namespace ringlet::models {

struct RankingOptions {
  double scale = 20;       // of the cosines, 1 / temperature
  bool symmetric = false;  // each positive should find its anchor among all anchors, too
};

/// Cross-entropy of scale * cos(anchor, candidate) with the row's own positive as target; if
/// symmetric, the mean with that of scale * cos(positive, anchor). Rows are an anchor, its positive
/// and any number of negatives. The candidates are all positives, then all negatives, of the rows
/// that Negatives tells. Needs at least two rows, with negatives one.
class MultipleNegativesRankingLoss final : public EmbeddingLoss {
 public:
  explicit MultipleNegativesRankingLoss(SentenceEncoder encoder, RankingOptions options = {})
      : EmbeddingLoss(std::move(encoder)), options_(options) {}
  const char* kind() const override {
    return options_.symmetric ? "MultipleNegativesSymmetricRankingLoss"
                              : "MultipleNegativesRankingLoss";
  }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<MultipleNegativesRankingLoss>(encoder_of(cloner), options_);
  }
  std::int64_t min_rows(std::size_t, std::int64_t columns) const override {
    return columns > 2 && !options_.symmetric ? 1 : 2;
  }
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;

 protected:
  bool compares_rows() const override { return true; }
  std::string settings() const override { return str(", scale ", options_.scale); }

 private:
  RankingOptions options_;
};

}  // namespace ringlet::models
