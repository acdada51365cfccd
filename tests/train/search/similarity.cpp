#include "ringlet/train/search/similarity.h"

#include <doctest/doctest.h>

#include <cmath>

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
