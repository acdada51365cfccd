#include "ringlet/train/evaluators/search/similarity.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/tensor/random.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("similarities of two rows, distances counted negatively") {
  const Tensor first = tensor(std::vector<float>{3, 4, 1, 0, 0, 0}, {3, 2});
  const Tensor second = tensor(std::vector<float>{4, 3, 0, 2, 1, 1}, {3, 2});
  using Values = std::vector<double>;
  CHECK(paired_similarities(Similarity::cosine, first, second) == Values{24.0 / 25, 0, 0});
  CHECK(paired_similarities(Similarity::dot, first, second) == Values{24, 0, 0});
  CHECK(paired_similarities(Similarity::euclidean, first, second) ==
        Values{-std::sqrt(2.0), -std::sqrt(5.0), -std::sqrt(2.0)});
  CHECK(paired_similarities(Similarity::manhattan, first, second) == Values{-2, -3, -2});
}

TEST_CASE("the cosine of equal embeddings is 1, and none is beyond") {
  manual_seed(3);
  for (const std::int64_t width : {1, 3, 16, 384})
    for (const double length : {1e-30, 1e-6, 1.0, 3e7, 1e30}) {
      CAPTURE(width);
      CAPTURE(length);
      const Tensor x = mul(normal({50, width}), length);
      const bool is_null = length < 1e-12;  // the norms count as that
      for (const double value : paired_similarities(Similarity::cosine, x, x))
        CHECK((is_null ? value <= 1 : value == 1));
      for (const double value : paired_similarities(Similarity::cosine, x, mul(x, -2)))
        CHECK((is_null ? value >= -1 : value == -1));
      for (const double value : paired_similarities(Similarity::cosine, x, mul(x, 1.1)))
        CHECK(value <= 1);
    }
}
