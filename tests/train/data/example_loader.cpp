#include "ringlet/train/data/loader.h"

#include <doctest/doctest.h>

#include <set>

#include "ringlet/core/base/error.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

using Examples = std::vector<std::size_t>;

Examples numbers(const Rows& rows) { return {rows.begin(), rows.end()}; }

struct Made {
  Examples examples;
  BatchShare share;
};

std::vector<Made> epoch(Loader<Examples>& loader) {
  std::vector<Made> all;
  for (const Examples& batch : loader) all.push_back({batch, loader.share()});
  return all;
}

}  // namespace

TEST_CASE("the ranks of a loader share out each step, and equally many batches") {
  // 11 examples in steps of 2 * 2 * 3 = 12 rows would be one step; of 2 * 3 = 6 rows, two.
  std::multiset<std::size_t> counted;
  double shares = 0;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    Loader loader(11, numbers, {.batch_size = 2, .seed = 1, .rank = rank, .world_size = 3});
    CHECK(loader.steps_per_epoch() == 2);
    const std::vector<Made> made = epoch(loader);
    REQUIRE(made.size() == 2);
    for (const auto& [examples, share] : made) {
      CHECK(share.ends_step);
      shares += share.factor;
      counted.insert(examples.begin(), examples.begin() + static_cast<std::ptrdiff_t>(share.rows));
    }
  }
  CHECK(counted.size() == 11);
  CHECK(std::set<std::size_t>(counted.begin(), counted.end()).size() == 11);
  CHECK(shares == doctest::Approx(2));  // 1 for each step
}

TEST_CASE("a rank without rows gets one that does not count") {
  Loader loader(7, numbers, {.batch_size = 3, .shuffle = false, .rank = 1, .world_size = 2});
  const std::vector<Made> made = epoch(loader);
  REQUIRE(made.size() == 2);
  CHECK(made[0].examples == Examples{3, 4, 5});
  CHECK(made[1].examples == Examples{6});
  CHECK(made[1].share.rows == 0);
  CHECK(made[1].share.factor == 0);
}

TEST_CASE("a step of several batches ends with its last, and the next loop is the next epoch") {
  Loader loader(5, numbers, {.batch_size = 2, .accumulation = 2, .seed = 2});
  const std::vector<Made> first = epoch(loader);
  REQUIRE(first.size() == 3);
  CHECK(!first[0].share.ends_step);
  CHECK(first[1].share.ends_step);
  CHECK(first[2].share.ends_step);
  CHECK(first[2].share.factor == 1);
  CHECK(loader.position() == Position{1, 0});
  const std::vector<Made> second = epoch(loader);
  CHECK(second[0].examples != first[0].examples);
  loader.seek({0, 1});
  CHECK(epoch(loader)[0].examples == first[2].examples);
  CHECK(loader.position() == Position{1, 0});
}

TEST_CASE("a batch that could not be made is the next one again, with a thread and without") {
  for (const std::size_t ahead : {0, 2}) {
    int calls = 0;
    const auto fails_once = [&](const Rows& rows) {
      if (++calls == 2) fail("no file");
      return numbers(rows);
    };
    Loader loader(6, fails_once, {.batch_size = 2, .shuffle = false}, {}, ahead);
    CHECK(*loader.next() == Examples{0, 1});
    CHECK_THROWS_WITH_AS(loader.next(), "no file", Error);
    CHECK(*loader.next() == Examples{2, 3});
    CHECK(*loader.next() == Examples{4, 5});
    CHECK(loader.next() == nullptr);
  }
}

TEST_CASE("rows are dealt anew, in batches of the same size or in parts of them") {
  Loader loader(12, numbers, {.batch_size = 4, .shuffle = false});
  loader.deal(comm::Group(), 3, /*split_batches=*/true);
  CHECK(epoch(loader).size() == 3);
  CHECK(loader.arguments().at(kRowsOfAStep) == "12");
  Loader odd(12, numbers, {.batch_size = 4});
  CHECK_THROWS_AS(odd.deal(comm::Group(), 0, false), InputError);
}
