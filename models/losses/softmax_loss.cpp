#include "ringlet/models/losses/softmax_loss.h"

#include "ringlet/autograd/functions/cross_entropy.h"
#include "ringlet/models/losses/columns.h"

namespace ringlet::models {

SoftmaxLoss::SoftmaxLoss(SentenceEncoder encoder, std::int64_t labels)
    : encoder_(std::move(encoder)) {
  RINGLET_CHECK(labels > 1, "[SoftmaxLoss] needs at least 2 labels, not ", labels);
  register_module("", encoder_.transformer());
  classifier_ =
      register_module("classifier", std::make_shared<nn::Linear>(3 * encoder_.dimension(), labels));
  classifier_->to(encoder_.device());
}

Variable SoftmaxLoss::logits(const PackedBatch& batch) {
  const auto [u, v] = columns<2>("SoftmaxLoss", encoder_(batch), batch);  // (rows, H)
  return (*classifier_)(autograd::concat({u, v, autograd::abs(u - v)}, 1));
}

Variable SoftmaxLoss::forward(const PackedBatch& batch) {
  check_labels("SoftmaxLoss", batch, DType::i64);
  return autograd::cross_entropy(logits(batch), batch.labels,
                                 static_cast<double>(batch.global_rows));
}

}  // namespace ringlet::models
