#include "ringlet/train/evaluators/statistics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ringlet/core/base/error.h"

using namespace ringlet::train;
using Values = std::vector<double>;

TEST_CASE("equal values share the mean of their ranks") {
  CHECK(average_ranks(Values{10, 30, 20}) == Values{1, 3, 2});
  CHECK(average_ranks(Values{5, 1, 5, 5}) == Values{3, 1, 3, 3});
  CHECK(average_ranks(Values{}).empty());
}

TEST_CASE("correlations are those of scipy") {
  const Values a{1, 2, 3, 4, 5}, b{2, 1, 4, 3, 7};
  // r = 12 / sqrt(10 * 21.2); the ranks 2 1 4 3 5 give 1 - 6 * 4 / (5 * 24).
  CHECK(pearson(a, b) == doctest::Approx(12 / std::sqrt(212.0)).epsilon(1e-15));
  CHECK(spearman(a, b) == doctest::Approx(0.8).epsilon(1e-15));
  // scipy.stats.spearmanr([1, 2, 2, 3], [1, 3, 2, 4]) = 9 / sqrt(90)
  CHECK(spearman(Values{1, 2, 2, 3}, Values{1, 3, 2, 4}) ==
        doctest::Approx(0.9486832980505138).epsilon(1e-15));
}

TEST_CASE("a rising function keeps Spearman, a falling one turns it round") {
  const Values x{-3, 0.5, 2, 9}, rising{-27, 0.125, 8, 729}, falling{3, -0.5, -2, -9};
  CHECK(spearman(x, rising) == doctest::Approx(1.0).epsilon(1e-15));
  CHECK(spearman(x, falling) == doctest::Approx(-1.0).epsilon(1e-15));
  CHECK(pearson(x, falling) == doctest::Approx(-1.0).epsilon(1e-15));
}

TEST_CASE("a large common offset does not spoil Pearson") {
  CHECK(pearson(Values{1e9 + 1, 1e9 + 2, 1e9 + 4}, Values{1, 2, 4}) ==
        doctest::Approx(1.0).epsilon(1e-12));
}

TEST_CASE("squares of Pearson's deviations neither overflow nor vanish") {
  // scipy.stats.pearsonr of [1, 2, 4] times a size and [1, 2, 3]; and of two sizes.
  for (const double size : {1e200, 1.0, 1e-170})
    CHECK(pearson(Values{size, 2 * size, 4 * size}, Values{1, 2, 3}) ==
          doctest::Approx(0.9819805060619656).epsilon(1e-15));
  CHECK(pearson(Values{1e200, -1e200, 3e199}, Values{1e-170, 5e-170, 2e-170}) ==
        doctest::Approx(-0.9940074366760486).epsilon(1e-15));
}

TEST_CASE("nothing that varies, no correlation") {
  CHECK(std::isnan(pearson(Values{1, 1, 1}, Values{1, 2, 3})));
  // The mean of three times 0.1 is not 0.1.
  CHECK(std::isnan(pearson(Values{0.1, 0.1, 0.1}, Values{1, 2, 3})));
  CHECK(std::isnan(pearson(Values{0.1, 0.1, 0.1}, Values{0.7, 0.7, 0.7})));
  CHECK(std::isnan(spearman(Values{1, 2, 3}, Values{4, 4, 4})));
  CHECK(std::isnan(spearman(Values{1}, Values{1})));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(spearman(Values{1, nan, 3}, Values{1, 2, 3})));
  CHECK_THROWS_AS(pearson(Values{1, 2}, Values{1, 2, 3}), ringlet::Error);
}
