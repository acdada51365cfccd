// The spread of ranks, and the cost of waiting for the slowest, compared with drawn steps.
#include "ringlet/bench/spread.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "ringlet/bench/scaling_model.h"

TEST_SUITE_BEGIN("host");

using ringlet::bench::DeviceStep;
using ringlet::bench::expected_maximum;
using ringlet::bench::Link;
using ringlet::bench::model_step;
using ringlet::bench::Network;
using ringlet::bench::spread_over_rounds;
using ringlet::bench::Step;
using ringlet::train::Strategy;

namespace {

const Network kSmall{4, 1e6, 4e6, 0, 1e5};
const DeviceStep kStraying{
    .samples = 32, .forward_s = 0.1, .backward_s = 0.2, .optimizer_s = 0.04, .spread = 0.08};

Link slow_link() {
  Link link;
  link.rate = 1e9;
  return link;
}

struct Mean {
  double value = 0, error = 0;  // of `value`, one standard deviation
};

/// The mean of the slowest rank's step, for normally distributed steps.
Mean simulated_slowest(int ranks, double mean, double deviation) {
  std::mt19937_64 bits(17);
  std::normal_distribution<double> step(mean, deviation);
  constexpr int kSteps = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kSteps; ++i) {
    double slowest = step(bits);
    for (int rank = 1; rank < ranks; ++rank) slowest = std::max(slowest, step(bits));
    sum += slowest / kSteps;
    squares += slowest * slowest / kSteps;
  }
  return {sum, std::sqrt((squares - sum * sum) / kSteps)};
}

}  // namespace

TEST_CASE("the largest of n normals: what is known in closed form, and tables") {
  CHECK(expected_maximum(1) == 0);
  const double root = std::sqrt(std::numbers::pi);
  CHECK(expected_maximum(2) == doctest::Approx(1 / root).epsilon(1e-9));
  CHECK(expected_maximum(3) == doctest::Approx(1.5 / root).epsilon(1e-9));
  CHECK(
      expected_maximum(4) ==
      doctest::Approx(6 / root * std::atan(std::numbers::sqrt2) / std::numbers::pi).epsilon(1e-9));
  CHECK(expected_maximum(10) == doctest::Approx(1.5387527308).epsilon(1e-9));
  CHECK(expected_maximum(100) == doctest::Approx(2.5075936382).epsilon(1e-9));
  for (int n = 2; n < 2000000; n *= 3) CHECK(expected_maximum(n) > expected_maximum(n / 2));
}

TEST_CASE("a step of ranks that stray takes as long as the slowest one's, drawn again and again") {
  for (const int n : {2, 3, 8, 64}) {
    CAPTURE(n);
    const Link none;
    const Step ddp = model_step(kStraying, kSmall, none, Strategy::ddp, n);
    const Mean drawn = simulated_slowest(n, 0.34, 0.08 * 0.34);
    CHECK(std::abs(ddp.seconds() - drawn.value) < 4 * drawn.error);
    CHECK(ddp.compute_s == doctest::Approx(0.3));
    CHECK(ddp.exposed_s == doctest::Approx(ddp.straggler_s));
    // An n-th of the update has a smaller spread.
    const double sharded = 0.3 + 0.04 / n;
    const Step zero1 = model_step(kStraying, kSmall, none, Strategy::zero1, n);
    CHECK(zero1.seconds() == doctest::Approx(sharded * (1 + 0.08 * expected_maximum(n))));
    // DP's threads meet after forward and backward; only the first device updates.
    const Step dp = model_step(kStraying, kSmall, none, Strategy::dp, n);
    CHECK(dp.compute_s == doctest::Approx(0.3 * (1 + 0.08 * expected_maximum(n))));
    CHECK(dp.exposed_s == doctest::Approx(0));
  }
}

TEST_CASE("waiting for the slowest comes on top of collectives, whatever hides of them") {
  DeviceStep steady = kStraying;
  steady.spread = 0;
  for (const Strategy strategy :
       {Strategy::dp, Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::fsdp})
    for (const int n : {2, 8}) {
      const Step step = model_step(kStraying, kSmall, slow_link(), strategy, n);
      const Step even = model_step(steady, kSmall, slow_link(), strategy, n);
      CHECK(step.straggler_s > 0);
      CHECK(step.seconds() == doctest::Approx(even.seconds() + step.straggler_s));
      CHECK(step.gather_s == even.gather_s);
    }
}

TEST_CASE("a single rank, one that exchanges nothing and ranks without spread do not wait") {
  DeviceStep steady = kStraying;
  steady.spread = 0;
  for (const Strategy strategy :
       {Strategy::none, Strategy::dp, Strategy::ddp, Strategy::zero1, Strategy::fsdp}) {
    const Step one = model_step(kStraying, kSmall, slow_link(), strategy, 1);
    CHECK(one.straggler_s == 0);
    CHECK(one.seconds() == model_step(steady, kSmall, slow_link(), strategy, 1).seconds());
    CHECK(model_step(steady, kSmall, slow_link(), strategy, 8).straggler_s == 0);
  }
  const Step apart = model_step(kStraying, kSmall, slow_link(), Strategy::none, 8);
  CHECK(apart.seconds() == doctest::Approx(0.34));
}

TEST_CASE("the spread over rounds leaves out what a batch and what a round have in common") {
  CHECK(spread_over_rounds({}) == 0);
  CHECK(spread_over_rounds({{100, 200, 300}}) == 0);
  CHECK(spread_over_rounds({{100}, {120}}) == 0);
  CHECK(spread_over_rounds({{100, 200, 300}, {100, 200, 300}}) == 0);
  CHECK(spread_over_rounds({{100, 200, 300}, {150, 250, 350}}) == 0);
  // Each value deviates by 10, squares sum to 400; one degree of freedom is left.
  CHECK(spread_over_rounds({{90, 210}, {110, 190}}) == doctest::Approx(20 / 150.0));
  std::mt19937_64 bits(5);
  std::normal_distribution<double> noise(0, 12);
  std::vector<std::vector<double>> rounds(5);
  for (std::size_t round = 0; round < rounds.size(); ++round)
    for (int step = 0; step < 2000; ++step)
      rounds[round].push_back(350 + step % 100 + 40 * static_cast<double>(round) + noise(bits));
  CHECK(spread_over_rounds(rounds) == doctest::Approx(12 / 479.5).epsilon(0.03));
}

TEST_SUITE_END();
