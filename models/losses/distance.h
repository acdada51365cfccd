// Distances of rows, as losses of distances use them.
#pragma once

#include "ringlet/autograd/functions.h"
#include "ringlet/core/base/names.h"

namespace ringlet::models {

enum class Distance : std::uint8_t { cosine, euclidean, manhattan };
inline constexpr EnumNames<Distance, 3> kDistances{"distance",
                                                   {"cosine", "euclidean", "manhattan"}};

/// Options of the losses with a margin between distances.
struct MarginOptions {
  Distance distance = Distance::euclidean;
  double margin = 5;

  std::string settings() const {
    return str(", margin ", margin, ", distance ", kDistances(distance));
  }
};

/// The square root of x, which is not negative; its gradient at 0 is 0.
inline Variable root(const Variable& x) {
  const Tensor zero = scalar_like(0, x.tensor());
  const Tensor positive = gt(x.tensor(), zero);
  const Variable inside = autograd::where(positive, x, Variable(scalar_like(1, x.tensor())));
  return autograd::where(positive, autograd::sqrt(inside), Variable(zero));
}

/// PyTorch's functions of pairs take norms below 1e-8 as 1e-8 (cosine_similarity), and add 1e-6 to
/// each difference (pairwise_distance). Sentence Transformers' functions add nothing, and take
/// norms below 1e-12 as 1e-12.
enum class PairForm : std::uint8_t { torch, sentence_transformers };

/// Row i of `a` and row i of `b`, (n, H) each -> (n).
inline Variable pair_distances(Distance distance, const Variable& a, const Variable& b,
                               PairForm form) {
  const bool torch = form == PairForm::torch;
  if (distance == Distance::cosine)
    return 1.0 - (torch ? autograd::cosine_similarity(a, b)
                        : autograd::sum(autograd::normalize(a) * autograd::normalize(b), {1}));
  const Variable difference = torch ? a - b + 1e-6 : a - b;
  if (distance == Distance::manhattan) return autograd::sum(autograd::abs(difference), {1});
  return root(autograd::sum(autograd::square(difference), {1}));
}

}  // namespace ringlet::models
