#include "ringlet/nn/loss.h"

#include "ringlet/autograd/functions.h"
#include "ringlet/core/ops/checks.h"

namespace ringlet::nn {

Variable cross_entropy(const Variable& logits, const Tensor& labels) try {
  return autograd::cross_entropy(logits, labels, static_cast<double>(logits.size(0)));
} catch (const Error& error) {
  fail_as("cross_entropy", error);
}

Variable cross_entropy(const Variable& logits, const Tensor& labels,
                       const CrossEntropyOptions& options) try {
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
} catch (const Error& error) {
  fail_as("cross_entropy", error);
}

Variable nll_loss(const Variable& log_probabilities, const Tensor& labels) try {
  const Variable chosen = autograd::gather(log_probabilities, 1, labels.view({-1, 1}));  // (R, 1)
  return -autograd::mean(chosen);
} catch (const Error& error) {
  fail_as("nll_loss", error);
}

Variable mse_loss(const Variable& x, const Variable& target) try {
  return autograd::mean(autograd::square(x - target));
} catch (const Error& error) {
  fail_as("mse_loss", error);
}

Variable binary_cross_entropy_with_logits(const Variable& x, const Variable& targets) try {
  const Variable positive = autograd::maximum(x, scalar_like(0, x.tensor()));
  const Variable rest = autograd::log1p(autograd::exp(-autograd::abs(x)));
  return autograd::mean(positive - x * targets + rest);
} catch (const Error& error) {
  fail_as("binary_cross_entropy_with_logits", error);
}

Variable kl_div(const Variable& x, const Variable& target) try {
  return autograd::sum(autograd::exp(target) * (target - x)) / static_cast<double>(x.size(0));
} catch (const Error& error) {
  fail_as("kl_div", error);
}

}  // namespace ringlet::nn
