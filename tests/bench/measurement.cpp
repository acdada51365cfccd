// Merged measurements of ranks, and their spread.
#include "ringlet/bench/measurement.h"

#include <doctest/doctest.h>

#include <cmath>

TEST_SUITE_BEGIN("host");

using ringlet::bench::Measurement;
using ringlet::bench::merge;
using ringlet::bench::Row;

namespace {

Measurement rank_of(const std::vector<double>& step_ms) {
  Measurement rank;
  rank.step_ms = step_ms;
  return rank;
}

}  // namespace

TEST_CASE("unconnected devices stray as far as they differ in a step, not as steps differ") {
  const Measurement alike = merge({rank_of({100, 200}), rank_of({100, 200})}, false);
  CHECK(alike.rank_variance_ms2 == 0);
  // Variances of 200, 0 and 200 between the two ranks.
  const Measurement apart = merge({rank_of({90, 200, 310}), rank_of({110, 200, 290})}, false);
  CHECK(apart.rank_variance_ms2 == doctest::Approx(400 / 3.0));
  CHECK(Measurement::from_text(apart.to_text()).rank_variance_ms2 == apart.rank_variance_ms2);
  const Row row{"unconnected", 2, "f32", "", false, {apart, alike}};
  CHECK(row.spread() == doctest::Approx(std::sqrt(200 / 3.0) / 180));
  const Measurement three = merge({rank_of({90}), rank_of({100}), rank_of({110})}, false);
  CHECK(three.rank_variance_ms2 == doctest::Approx(100));
}

TEST_CASE("ranks that wait for each other do not stray, nor does a single one") {
  CHECK(merge({rank_of({90, 200}), rank_of({110, 200})}, true).rank_variance_ms2 == 0);
  CHECK(Row{"unconnected", 1, "f32", "", false, {merge({rank_of({90})}, false)}}.spread() == 0);
}

TEST_SUITE_END();
