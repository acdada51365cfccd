// Cosines of rows with gradients: of pairs, or of all rows with all rows.
#pragma once

#include "ringlet/autograd/functions/matmul.h"
#include "ringlet/autograd/functions/normalize.h"
#include "ringlet/core/ops/cosine_similarity.h"

namespace ringlet::autograd {

/// a, b (.., C) -> (R): the cosine of each pair of rows.
inline Variable cosine_similarity(const Variable& a, const Variable& b, double eps = kCosineEps) {
  auto backward = [a = Saved(a), b = Saved(b), eps](const Tensor& grad, Gradients& grads) {
    CosineSimilarityGradients out = ringlet::cosine_similarity_backward(
        grad, a.tensor(grads), b.tensor(grads), eps, grads[0].needed(), grads[1].needed());
    if (out.a) grads[0].set(std::move(out.a));
    if (out.b) grads[1].set(std::move(out.b));
  };
  return record("cosine_similarity", ringlet::cosine_similarity(a.tensor(), b.tensor(), eps),
                {a, b}, std::move(backward));
}

/// Every row of a with every row of b: a (N, C), b (M, C) -> (N, M). As cos_sim of
/// sentence-transformers, rows are normalised, then multiplied.
inline Variable cosine_similarity_matrix(const Variable& a, const Variable& b) {
  return matmul(normalize(a), normalize(b), {.trans_b = true});
}

}  // namespace ringlet::autograd
