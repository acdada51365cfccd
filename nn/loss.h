// Losses on tensors, means over rows, as in torch.nn.functional.
#pragma once

#include <cstdint>

#include "ringlet/autograd/variable.h"

namespace ringlet::nn {

/// logits (R, C), labels (R) i64: -log softmax(logits)[label]. Throws if R is 0; PyTorch gives NaN.
Variable cross_entropy(const Variable& logits, const Tensor& labels);

struct CrossEntropyOptions {
  double label_smoothing = 0;        // the share of a target that all classes have in equal parts
  std::int64_t ignore_index = -100;  // rows with this label do not count
};
/// The same with options. Without a row that counts it is NaN, as in PyTorch.
Variable cross_entropy(const Variable& logits, const Tensor& labels,
                       const CrossEntropyOptions& options);

/// log_probabilities (R, C), labels (R) i64: -log_probabilities[label].
Variable nll_loss(const Variable& log_probabilities, const Tensor& labels);

/// (x - target)^2; the mean over all elements.
Variable mse_loss(const Variable& x, const Variable& target);

/// -t log s - (1 - t) log(1 - s) of s = sigmoid(x) and targets t in [0, 1]; the mean over all
/// elements, without overflow.
Variable binary_cross_entropy_with_logits(const Variable& x, const Variable& targets);

/// The divergence KL(target || x) of rows (R, C), both as logarithms of probabilities: the sum of
/// exp(target) (target - x) divided by R. PyTorch's "batchmean", with log_target.
Variable kl_div(const Variable& x, const Variable& target);

}  // namespace ringlet::nn
