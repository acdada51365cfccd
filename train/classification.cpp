#include "ringlet/train/classification.h"

#include "ringlet/core/ops/cross_entropy.h"
#include "ringlet/core/ops/topk.h"

namespace ringlet::train {

void ClassificationMeter::add(const Tensor& logits, const Tensor& labels) {
  RINGLET_CHECK_EQ(logits.size(0), labels.numel(), "[classification] logits and labels");
  if (labels.numel() == 0) return;
  const auto predicted = argmax(logits, 1).to_vector<std::int64_t>();
  const auto expected = labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < expected.size(); ++i) correct_ += predicted[i] == expected[i];
  rows_ += labels.numel();
  loss_sum_ += cross_entropy(logits, labels, 1).loss.item<double>();
}

}  // namespace ringlet::train
