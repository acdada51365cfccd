// Distances of rows, as losses of distances use them.
#pragma once

#include "ringlet/autograd/functions/cosine_similarity.h"
#include "ringlet/autograd/functions/elementwise.h"
#include "ringlet/autograd/functions/reduce.h"
#include "ringlet/core/base/names.h"

namespace ringlet::models {

enum class Distance : std::uint8_t { cosine, euclidean, manhattan };
inline constexpr Names<Distance, 3> kDistances{"distance", {"cosine", "euclidean", "manhattan"}};

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

/// Row i of `a` and row i of `b`, (n, H) each -> (n). `offset` is added to each difference, as
/// torch's pairwise_distance does with 1e-6.
inline Variable pair_distances(Distance distance, const Variable& a, const Variable& b,
                               double offset = 0) {
  if (distance == Distance::cosine) return 1.0 - autograd::cosine_similarity(a, b);
  const Variable difference = a - b + offset;
  if (distance == Distance::manhattan) return autograd::sum(autograd::abs(difference), {1});
  return root(autograd::sum(autograd::square(difference), {1}));
}

}  // namespace ringlet::models
