// MatryoshkaLoss: any loss, of embeddings cut to several lengths.
// Kusupati et al., Matryoshka Representation Learning, 2022.
#pragma once

#include <vector>

#include "ringlet/models/losses/embedding_loss.h"

namespace ringlet::models {

/// The sum over `dims` of the inner loss of the first values of each embedding, normalised again.
/// The encoder runs once.
class MatryoshkaLoss final : public EmbeddingLoss {
 public:
  /// InputError when a dimension is not from 1 to the encoder's or occurs twice. `inner` has no
  /// parameters of its own: their shapes would depend on the length.
  MatryoshkaLoss(std::shared_ptr<EmbeddingLoss> inner, std::vector<std::int64_t> dims);

  const char* kind() const override { return "MatryoshkaLoss"; }
  std::string describe(std::size_t dataset) const override;
  bool is_capturable() const override { return inner_->is_capturable(); }
  bool spans_ranks(std::size_t dataset) const override { return inner_->spans_ranks(dataset); }
  std::int64_t min_rows(std::size_t dataset, std::int64_t columns) const override {
    return inner_->min_rows(dataset, columns);
  }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<MatryoshkaLoss>(cloner(inner_), dims_);
  }
  void set_negatives(Negatives negatives) override { inner_->set_negatives(negatives); }
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;

 private:
  std::shared_ptr<EmbeddingLoss> inner_;
  std::vector<std::int64_t> dims_;  // descending
};

}  // namespace ringlet::models
