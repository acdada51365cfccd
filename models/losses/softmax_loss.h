// SoftmaxLoss: classifies a pair from (u, v, |u - v|). Reimers and Gurevych, Sentence-BERT, 2019.
#pragma once

#include "ringlet/models/losses/loss.h"
#include "ringlet/models/sentence_encoder.h"
#include "ringlet/nn/linear.h"

namespace ringlet::models {

/// Cross-entropy of Linear(3 H, labels)(u, v, |u - v|); batches are pairs with i64 class labels.
class SoftmaxLoss final : public Loss {
 public:
  SoftmaxLoss(SentenceEncoder encoder, std::int64_t labels);
  const char* kind() const override { return "SoftmaxLoss"; }
  bool is_capturable() const override { return true; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    return std::make_shared<SoftmaxLoss>(encoder_.around(cloner(encoder_.transformer())),
                                         num_labels());
  }

  Variable logits(const PackedBatch& batch);  // (rows, labels)
  std::int64_t num_labels() const { return classifier_->weight.size(0); }

 protected:
  Variable forward(const PackedBatch& batch) override;

 private:
  SentenceEncoder encoder_;
  std::shared_ptr<nn::Linear> classifier_;
};

}  // namespace ringlet::models
