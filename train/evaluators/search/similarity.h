// Similarities of embeddings, by the names of Sentence Transformers, and exact search for the most
// similar embeddings of a corpus that is read in pieces.
//
//   TopKSearch search(queries, 10, Similarity::cosine);
//   for (each piece of the corpus) search.add(embeddings);
//   for (const std::vector<Hit>& best : search.finish()) …
#pragma once

#include <cstdint>
#include <vector>

#include "ringlet/comm/group.h"
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

/// A row of the corpus, counted from 0 over all pieces.
struct Hit {
  std::int64_t row = 0;
  float score = 0;
  bool operator==(const Hit&) const = default;
};
/// The larger score, of equal ones the earlier row.
bool is_better(const Hit& a, const Hit& b);

/// Keeps the k most similar rows of each query; equal scores are in the order of rows. Products
/// have blocks of fixed size, so the sizes of the pieces change no bit. Memory: queries, hits and a
/// block of scores. A similarity of NaN is no hit.
class TopKSearch {
 public:
  /// `queries` (Q, H) f32, on the device that multiplies; Q may be 0, k is at least 1. Each rank of
  /// the group has all queries and all rows, and searches for its share of the queries.
  TopKSearch(const Tensor& queries, std::int64_t k, Similarity similarity, comm::Group group = {});

  /// The next rows of the corpus, (n, H) f32.
  void add(const Tensor& rows);
  /// The hits of each query, the best first; fewer than k if the corpus is smaller. All ranks call
  /// it together. No row can be added afterwards.
  std::vector<std::vector<Hit>> finish();

 private:
  void search_block();
  Tensor scores_of(std::int64_t begin, std::int64_t end) const;
  void keep_best(const Tensor& scores, std::int64_t first_query);

  Similarity similarity_;
  std::size_t k_;
  comm::Group group_;
  Tensor queries_;  // (share of Q, H); unit vectors for the cosine
  Tensor block_;    // (kBlockRows, H), rows to search
  std::int64_t filled_ = 0;
  std::int64_t searched_ = 0;            // rows of the blocks before
  std::vector<std::vector<Hit>> heaps_;  // (share of Q), the worst hit on top
};

}  // namespace ringlet::train
