// Similarities of embeddings, by the names of Sentence Transformers.
#pragma once

#include <vector>

#include "ringlet/core/base/names.h"
#include "ringlet/models/sentence_encoder.h"

namespace ringlet::train {

/// The distances count negatively: a larger value means more similar.
enum class Similarity { cosine, dot, euclidean, manhattan };
inline constexpr EnumNames<Similarity, 4> kSimilarities{
    "similarity", {"cosine", "dot", "euclidean", "manhattan"}};

/// Whether it is no distance.
constexpr bool is_product(Similarity similarity) {
  return similarity == Similarity::cosine || similarity == Similarity::dot;
}

/// The similarity of two embeddings of n values, computed in f64. The cosine of equal embeddings
/// is 1 exactly.
double similarity_of(Similarity similarity, const float* a, const float* b, std::int64_t n);

/// Similarities of row i of `a` and row i of `b`, (n, H) f32 each.
std::vector<double> paired_similarities(Similarity similarity, const Tensor& a, const Tensor& b);

/// The similarity that the model's folder names.
Similarity own_similarity(const models::SentenceEncoder& model);

/// `chosen`; if none is chosen, `own` alone.
std::vector<Similarity> similarities_or(const std::vector<Similarity>& chosen, Similarity own);

}  // namespace ringlet::train
