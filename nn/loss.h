// Losses on tensors, means over rows, as in torch.nn.functional.
#pragma once

#include "ringlet/autograd/functions.h"

namespace ringlet::nn {

/// logits (R, C), labels (R) i64: -log softmax(logits)[label]. Throws if R is 0; PyTorch gives NaN.
inline Variable cross_entropy(const Variable& logits, const Tensor& labels) {
  return autograd::cross_entropy(logits, labels, static_cast<double>(logits.size(0)));
}

/// log_probabilities (R, C), labels (R) i64: -log_probabilities[label].
inline Variable nll_loss(const Variable& log_probabilities, const Tensor& labels) {
  const Variable chosen = autograd::gather(log_probabilities, 1, labels.view({-1, 1}));  // (R, 1)
  return -autograd::mean(chosen);
}

/// (x - target)^2; the mean over all elements.
inline Variable mse_loss(const Variable& x, const Variable& target) {
  return autograd::mean(autograd::square(x - target));
}

}  // namespace ringlet::nn
