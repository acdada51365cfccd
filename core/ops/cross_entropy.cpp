#include "ringlet/core/ops/cross_entropy.h"

#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<CrossEntropyArgs> cross_entropy_kernel("cross_entropy");
constinit OpKernel<CrossEntropyBackwardArgs> cross_entropy_backward_kernel(
    "cross_entropy_backward");

namespace {

void check_arguments(const Tensor& logits, const Tensor& labels, double divisor) {
  constexpr const char* kOp = "cross_entropy";
  RINGLET_CHECK(logits.dim() == 2, "[cross_entropy] logits are ", logits.shape(),
                ", expected (rows, classes)");
  check_same_device(kOp, logits, labels);
  check_shape(kOp, "labels", labels, {logits.size(0)});
  if (labels.dtype() != DType::i64 && labels.dtype() != DType::i32)
    fail("[cross_entropy] labels are ", labels.dtype(), ", expected i64 or i32");
  RINGLET_CHECK(divisor > 0, "[cross_entropy] the sum is divided by ", divisor);
}

}  // namespace

CrossEntropyOutput cross_entropy(const Tensor& logits, const Tensor& labels, double divisor) {
  check_arguments(logits, labels, divisor);
  const DType dtype = parameter_dtype(logits.dtype());
  CrossEntropyOutput out{empty({}, dtype, logits.device()),
                         empty({logits.size(0), 2}, dtype, logits.device())};
  cross_entropy_kernel(
      {out.loss.mutable_bytes(), out.lse.mutable_bytes(), logits.bytes(), labels.bytes(),
       logits.size(0), logits.size(1), divisor, logits.dtype(), labels.dtype()},
      logits.device());
  return out;
}

Tensor cross_entropy_backward(const Tensor& grad, const Tensor& logits, const Tensor& labels,
                              const Tensor& lse, double divisor) {
  check_arguments(logits, labels, divisor);
  check_parameter("cross_entropy_backward", "grad", grad, {}, logits);
  check_parameter("cross_entropy_backward", "lse", lse, {logits.size(0), 2}, logits);
  Tensor out = empty_like(logits);
  if (out.numel() > 0)
    cross_entropy_backward_kernel(
        {out.mutable_bytes(), grad.bytes(), logits.bytes(), labels.bytes(), lse.bytes(),
         logits.size(0), logits.size(1), divisor, logits.dtype(), labels.dtype()},
        logits.device());
  return out;
}

}  // namespace ringlet
