// CoSENTLoss and AnglELoss: pairs of a batch should be similar in the order of their scores.
// Huang et al., CoSENT, 2024; Li and Li, AnglE-optimized Text Embeddings, 2024.
#pragma once

#include "ringlet/models/losses/embedding_loss.h"

namespace ringlet::models {

/// ln(1 + the sum of exp(scale (s_j - s_i)) over rows with score_i > score_j), of the rows that
/// Negatives tells; s is a similarity. Batches have scores of any range or class labels. Every rank
/// computes the whole value, in f64 and O(rows log rows), and returns its rows' share.
class OrderLoss : public EmbeddingLoss {
 public:
  /// It sorts on the host.
  bool is_capturable() const override { return false; }

 protected:
  OrderLoss(SentenceEncoder encoder, double scale)
      : EmbeddingLoss(std::move(encoder)), scale_(scale) {}
  bool compares_rows() const override { return true; }
  std::string settings() const override { return str(", scale ", scale_); }
  /// Similarities and scores (rows) of this rank, in one or more parts.
  Variable of_similarities(const std::vector<Variable>& similarities,
                           const std::vector<Tensor>& scores, const PackedBatch& batch) const;
  double scale() const { return scale_; }

 private:
  double scale_;
};

/// The similarity is the cosine of a pair.
class CoSENTLoss final : public OrderLoss {
 public:
  explicit CoSENTLoss(SentenceEncoder encoder, double scale = 20)
      : OrderLoss(std::move(encoder), scale) {}
  const char* kind() const override { return "CoSENTLoss"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<CoSENTLoss>(encoder_of(cloner), scale());
  }
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;
};

/// The similarity is that of angles in the complex plane, |cos + sin|. Rows are an anchor and one
/// or more texts: the first has the row's score y, or 1 without scores, the others have 1 - y.
class AnglELoss final : public OrderLoss {
 public:
  explicit AnglELoss(SentenceEncoder encoder, double scale = 20)
      : OrderLoss(std::move(encoder), scale) {}
  const char* kind() const override { return "AnglELoss"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<AnglELoss>(encoder_of(cloner), scale());
  }
  Variable of_embeddings(const Variable& embeddings, const PackedBatch& batch) const override;
};

}  // namespace ringlet::models
