#include "ringlet/train/evaluators/classification.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("accuracy and loss count every row once, whatever the batches") {
  ClassificationMeter meter;
  meter.add(tensor(std::vector<float>{2, 0, 0, 2}, {2, 2}),
            tensor({std::int64_t{0}, std::int64_t{0}}));
  meter.add(tensor(std::vector<float>{0, 0}, {1, 2}), tensor({std::int64_t{0}}));
  meter.add(zeros({0, 2}), zeros({0}, DType::i64));
  CHECK(meter.rows() == 3);
  CHECK(meter.accuracy() == doctest::Approx(2.0 / 3).epsilon(1e-15));  // the first of equals
  const double right = std::log(1 + std::exp(-2)), wrong = std::log(1 + std::exp(2));
  CHECK(meter.loss() == doctest::Approx((right + wrong + std::log(2)) / 3).epsilon(1e-6));
}

TEST_CASE("nothing counted, no figures") {
  CHECK(std::isnan(ClassificationMeter().accuracy()));
  ClassificationMeter meter;
  CHECK_THROWS_AS(meter.add(zeros({2, 3}), zeros({1}, DType::i64)), Error);
}
