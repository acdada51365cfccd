#include "ringlet/core/ops/cosine_similarity.h"

#include "ringlet/core/ops/accumulator.h"

namespace ringlet {

constinit Kernel<CosineSimilarityArgs> cosine_similarity_kernel("cosine_similarity");
constinit Kernel<CosineSimilarityBackwardArgs> cosine_similarity_backward_kernel(
    "cosine_similarity_backward");

namespace {

std::int64_t check_rows(const Tensor& a, const Tensor& b) {
  check_same_device("cosine_similarity", a, b);
  check_same_dtype("cosine_similarity", a, b);
  RINGLET_CHECK(a.dim() > 0 && a.size(-1) > 0, "[cosine_similarity] no columns in ", a.shape());
  check_shape("cosine_similarity", "second operand", b, a.shape());
  return a.numel() / a.size(-1);
}

}  // namespace

Tensor cosine_similarity(const Tensor& a, const Tensor& b, double eps) {
  const std::int64_t rows = check_rows(a, b);
  Tensor y = empty({rows}, parameter_dtype(a.dtype()), a.device());
  if (rows > 0)
    cosine_similarity_kernel(
        {y.mutable_bytes(), a.bytes(), b.bytes(), rows, a.size(-1), eps, a.dtype()}, a.device());
  return y;
}

CosineSimilarityGradients cosine_similarity_backward(const Tensor& grad, const Tensor& a,
                                                     const Tensor& b, double eps, bool needs_a,
                                                     bool needs_b) {
  const std::int64_t rows = check_rows(a, b);
  check_same_device("cosine_similarity", grad, a);
  check_shape("cosine_similarity", "gradient", grad, {rows});
  RINGLET_CHECK_EQ(grad.dtype(), parameter_dtype(a.dtype()),
                   "[cosine_similarity] dtype of the gradient");
  CosineSimilarityGradients out;
  if (needs_a) out.a = empty_like(a);
  if (needs_b) out.b = empty_like(b);
  if (rows > 0)
    cosine_similarity_backward_kernel(
        {needs_a ? out.a.mutable_bytes() : nullptr, needs_b ? out.b.mutable_bytes() : nullptr,
         grad.bytes(), a.bytes(), b.bytes(), rows, a.size(-1), eps, a.dtype()},
        a.device());
  return out;
}

}  // namespace ringlet
