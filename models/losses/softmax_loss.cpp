#include "ringlet/models/losses/softmax_loss.h"

#include "ringlet/autograd/functions/cross_entropy.h"
#include "ringlet/models/losses/columns.h"

namespace ringlet::models {

SoftmaxLoss::SoftmaxLoss(SentenceEncoder encoder, std::int64_t labels)
    : EmbeddingLoss(std::move(encoder)) {
  RINGLET_CHECK(labels > 1, "[SoftmaxLoss] needs at least 2 labels, not ", labels);
  const std::int64_t width = 3 * this->encoder().dimension();
  classifier_ = register_module("classifier", std::make_shared<nn::Linear>(width, labels));
  classifier_->to(this->encoder().device());
}

Variable SoftmaxLoss::logits(const PackedBatch& batch) { return classify(encoder()(batch), batch); }

Variable SoftmaxLoss::of_embeddings(const Variable& embeddings, const PackedBatch& batch) const {
  check_labels("SoftmaxLoss", batch, DType::i64);
  return autograd::cross_entropy(classify(embeddings, batch), batch.labels,
                                 static_cast<double>(batch.global_rows));
}

Variable SoftmaxLoss::classify(const Variable& embeddings, const PackedBatch& batch) const {
  const auto [u, v] = columns<2>("SoftmaxLoss", embeddings, batch);  // (rows, H)
  return (*classifier_)(autograd::concat({u, v, autograd::abs(u - v)}, 1));
}

}  // namespace ringlet::models
