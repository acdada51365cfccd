// Losses on tensors, means over rows, as in torch.nn.functional.
#pragma once

#include "ringlet/autograd/functions.h"

namespace ringlet::nn {

/// logits (R, C), labels (R) i64: -log softmax(logits)[label]. Throws if R is 0; PyTorch gives NaN.
inline Variable cross_entropy(const Variable& logits, const Tensor& labels) {
  return autograd::cross_entropy(logits, labels, static_cast<double>(logits.size(0)));
}

struct CrossEntropyOptions {
  double label_smoothing = 0;        // the share of a target that all classes have in equal parts
  std::int64_t ignore_index = -100;  // rows with this label do not count
};
/// The same with options. Without a row that counts it is NaN, as in PyTorch.
inline Variable cross_entropy(const Variable& logits, const Tensor& labels,
                              const CrossEntropyOptions& options) {
  const Variable wide = autograd::cast(logits, parameter_dtype(logits.dtype()));
  const Variable log_probabilities = autograd::log_softmax(wide);
  const Tensor zero = scalar_like(0, labels), none = scalar_like(0, wide.tensor());
  const Tensor ignored = binary(BinaryOp::eq, labels, static_cast<double>(options.ignore_index));
  const Tensor known = where(ignored, zero, labels).view({-1, 1});
  const Variable chosen = autograd::view(autograd::gather(log_probabilities, 1, known), {-1});
  const Variable rows = chosen * (1 - options.label_smoothing) +
                        autograd::mean(log_probabilities, {1}) * options.label_smoothing;
  const Variable count = sum(where(ignored, none, scalar_like(1, none)));
  return -autograd::sum(autograd::masked_fill(rows, ignored, 0)) / count;
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

/// -t log s - (1 - t) log(1 - s) of s = sigmoid(x) and targets t in [0, 1]; the mean over all
/// elements, without overflow.
inline Variable binary_cross_entropy_with_logits(const Variable& x, const Variable& targets) {
  const Variable positive = autograd::maximum(x, scalar_like(0, x.tensor()));
  const Variable rest = autograd::log1p(autograd::exp(-autograd::abs(x)));
  return autograd::mean(positive - x * targets + rest);
}

/// The divergence KL(target || x) of rows (R, C), both as logarithms of probabilities: the sum of
/// exp(target) (target - x) divided by R. PyTorch's "batchmean", with log_target.
inline Variable kl_div(const Variable& x, const Variable& target) {
  return autograd::sum(autograd::exp(target) * (target - x)) / static_cast<double>(x.size(0));
}

}  // namespace ringlet::nn
