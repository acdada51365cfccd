#include "ringlet/core/ops/cosine_similarity.h"

#include "ringlet/core/ops/checks.h"

namespace ringlet {

constinit OpKernel<CosineSimilarityArgs> cosine_similarity_kernel("cosine_similarity");
constinit OpKernel<CosineSimilarityBackwardArgs> cosine_similarity_backward_kernel(
    "cosine_similarity_backward");

namespace {

std::int64_t check_rows(const Tensor& a, const Tensor& b) {
  check_like("cosine_similarity", "second operand", b, a);
  return rows_of("cosine_similarity", a);
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
  check_parameter("cosine_similarity", "gradient", grad, {rows}, a);
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
