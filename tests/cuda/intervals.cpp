#include "ringlet/cuda/activity.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ringlet::cuda;

TEST_CASE("a union has each moment once, whatever overlaps, touches or comes late") {
  CHECK(union_of({}).empty());
  CHECK(union_of({{5, 5}, {9, 7}}).empty());
  std::vector<Interval> all{{10, 20}, {12, 15}, {20, 30}, {40, 50}, {49, 60}, {60, 60}};
  do {
    REQUIRE(union_of(all) == std::vector<Interval>{{10, 30}, {40, 60}});
  } while (std::next_permutation(all.begin(), all.end(), [](const Interval& a, const Interval& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  }));
}

TEST_CASE("the idle share is that of the gaps between the first begin and the last end") {
  CHECK(idle_share({}) == 0);
  CHECK(idle_share({{100, 200}}) == 0);
  const std::vector<Interval> busy = union_of({{160, 200}, {100, 150}, {120, 140}, {190, 195}});
  CHECK(gaps(busy) == std::vector<Interval>{{150, 160}});
  CHECK(total(busy) == 90);
  CHECK(idle_share(busy) == 0.1);
  // Nanoseconds since 1970 have more digits than a double.
  const std::uint64_t late = 1'800'000'000'000'000'001;
  CHECK(idle_share(union_of({{late, late + 3}, {late + 4, late + 8}})) == 1.0 / 8);
}
