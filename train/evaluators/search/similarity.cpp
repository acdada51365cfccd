#include "ringlet/train/evaluators/search/similarity.h"

#include <algorithm>
#include <cmath>

namespace ringlet::train {

double similarity_of(Similarity similarity, const float* a, const float* b, std::int64_t n) {
  double dot = 0, aa = 0, bb = 0, squared = 0, absolute = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = a[i], y = b[i];
    dot += x * y;
    aa += x * x;
    bb += y * y;
    squared += (x - y) * (x - y);
    absolute += std::abs(x - y);
  }
  switch (similarity) {
    case Similarity::cosine: {
      constexpr double kLeast = 1e-24;  // norms are at least 1e-12, as in torch's normalize
      const double norms = std::sqrt(std::max(aa, kLeast) * std::max(bb, kLeast));
      return std::clamp(dot / norms, -1.0, 1.0);
    }
    case Similarity::dot:
      return dot;
    case Similarity::euclidean:
      return -std::sqrt(squared);
    case Similarity::manhattan:
      break;
  }
  return -absolute;
}

std::vector<double> paired_similarities(Similarity similarity, const Tensor& a, const Tensor& b) {
  RINGLET_CHECK(a.dim() == 2 && a.shape() == b.shape(), "[similarity] embeddings of shapes ",
                a.shape(), " and ", b.shape());
  const Tensor first = a.to(Device()), second = b.to(Device());
  std::vector<double> values;
  for (std::int64_t i = 0; i < a.size(0); ++i)
    values.push_back(
        similarity_of(similarity, first[i].data<float>(), second[i].data<float>(), a.size(1)));
  return values;
}

Similarity own_similarity(const models::SentenceEncoder& model) {
  return kSimilarities.parse(model.sentence_config().similarity_fn_name);
}

std::vector<Similarity> similarities_or(const std::vector<Similarity>& chosen, Similarity own) {
  return chosen.empty() ? std::vector{own} : chosen;
}

}  // namespace ringlet::train
