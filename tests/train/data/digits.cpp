#include "ringlet/train/data/digits.h"

#include <doctest/doctest.h>

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("digits become normalised images that know their place in the step") {
  const Digits digits{.count = 3,
                      .height = 1,
                      .width = 2,
                      .pixels = {0, 255, 51, 0, 255, 255},
                      .labels = {7, 8, 9}};
  const std::size_t rows[] = {2, 0};
  const DigitBatch batch = collate_digits(digits, Rows(rows, /*first=*/4));
  CHECK(batch.images.shape() == Shape{2, 1, 1, 2});
  const float ink = static_cast<float>((1 - kDigitMean) / kDigitStd);
  const float paper = static_cast<float>(-kDigitMean / kDigitStd);
  CHECK(batch.images.to_vector() == std::vector<float>{ink, ink, paper, ink});
  CHECK(batch.labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{9, 7});
  CHECK(batch.positions.to_vector<std::int32_t>() == std::vector<std::int32_t>{4, 0, 5, 0});

  const std::size_t beyond[] = {3};
  CHECK_THROWS_AS(collate_digits(digits, Rows(beyond)), Error);
  CHECK(collate_digits(digits, Rows({})).images.shape() == Shape{0, 1, 1, 2});
}
