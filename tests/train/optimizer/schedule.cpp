#include "ringlet/train/optimizer/schedule.h"

#include <doctest/doctest.h>

#include "../../oracle.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_CASE("a linear schedule rises from 0, then falls to 0 at the end") {
  const Schedule schedule(Decay::linear, /*total_steps=*/10, /*warmup_steps=*/2);
  CHECK(schedule.factor(0) == 0.0);
  CHECK(schedule.factor(1) == 0.5);
  CHECK(schedule.factor(2) == 1.0);
  CHECK(schedule.factor(6) == 0.5);
  CHECK(schedule.factor(10) == 0.0);
  CHECK(schedule.factor(11) == 0.0);
}

TEST_CASE("without a schedule the rate is what it is") {
  CHECK(Schedule().factor(0) == 1.0);
  CHECK(Schedule().factor(1000) == 1.0);
}

TEST_CASE("a schedule may be any function of the step") {
  const Schedule root(
      [](std::int64_t step) { return 1 / std::sqrt(1.0 + static_cast<double>(step)); });
  CHECK(root.factor(3) == 0.5);
  CHECK_THROWS_WITH_AS(Schedule([](std::int64_t) { return -0.5; }).factor(7),
                       "[schedule] the factor of step 7: expected 0 or more, found -0.5", Error);
}

TEST_CASE("every factor is that of transformers") {
  const Oracle ops("ops");
  for (const std::string& name : ops.cases("schedule")) {
    CAPTURE(name);
    const std::string decay = name.substr(9, name.find('_') - 9);
    const Schedule schedule(kDecays.parse(decay),
                            static_cast<std::int64_t>(ops.scalar(name + "/total_steps")),
                            static_cast<std::int64_t>(ops.scalar(name + "/warmup_steps")));
    const std::vector<double> expected = ops.tensor(name + "/factors").to_vector<double>();
    for (std::size_t step = 0; step < expected.size(); ++step) {
      CAPTURE(step);
      // A quotient of integers is exact to its last bit; a cosine may differ in it.
      CHECK(std::abs(schedule.factor(static_cast<std::int64_t>(step)) - expected[step]) <=
            (decay == "cosine" ? 4 * kF64 : 0.0));
    }
  }
}

TEST_CASE("a warm-up ratio is rounded up to steps") {
  CHECK(warmup_steps_of(0.1, 135) == 14);
  CHECK(warmup_steps_of(0, 135) == 0);
  CHECK(warmup_steps_of(1, 135) == 135);
  CHECK_THROWS_WITH_AS(warmup_steps_of(1.5, 10),
                       "warmup_ratio: expected a number from 0 to 1, found 1.5", InputError);
}

TEST_CASE("unknown schedules and negative steps are refused") {
  CHECK_THROWS_WITH_AS(kDecays.parse("square"),
                       "unknown schedule 'square'; expected linear, cosine or constant",
                       InputError);
  CHECK_THROWS_AS(Schedule(Decay::linear, -1), InputError);
  CHECK_THROWS_AS(Schedule(Decay::linear, 10, -1), InputError);
}
