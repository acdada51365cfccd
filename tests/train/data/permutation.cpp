#include "ringlet/train/data/permutation.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <vector>

#include "ringlet/core/base/error.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

std::vector<std::uint64_t> order(std::uint64_t size, std::uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < size; ++i) all.push_back(permutation(i));
  return all;
}

}  // namespace

TEST_CASE("permutation: every element once, whatever the size") {
  for (const std::uint64_t size : {0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 1000, 4097}) {
    const std::vector<std::uint64_t> all = order(size, 7);
    const std::set<std::uint64_t> distinct(all.begin(), all.end());
    CHECK_EQ(distinct.size(), size);
    if (size > 0) CHECK_EQ(*distinct.rbegin(), size - 1);
  }
}

TEST_CASE("permutation: a function of its key") {
  CHECK(order(100, 1) == order(100, 1));
  CHECK(order(100, 1) != order(100, 2));
  CHECK_THROWS_AS(Permutation(10, 1)(10), Error);
}

TEST_CASE("permutation: a single position of a huge range costs nothing") {
  const std::uint64_t size = std::uint64_t{1} << 40;
  const Permutation permutation(size, 3);
  CHECK_LT(permutation(size - 1), size);
  CHECK_NE(permutation(0), permutation(1));
}

TEST_CASE("permutation: all orders of a small range are about equally frequent") {
  constexpr int kKeys = 24'000;
  std::map<std::vector<std::uint64_t>, int> counts;
  for (int key = 0; key < kKeys; ++key) ++counts[order(4, static_cast<std::uint64_t>(key))];
  REQUIRE_EQ(counts.size(), 24);
  double chi_squared = 0;
  for (const auto& [unused, count] : counts) {
    chi_squared += (count - kKeys / 24.0) * (count - kKeys / 24.0) / (kKeys / 24.0);
  }
  CHECK_LT(chi_squared, 49.73);  // 23 degrees of freedom: exceeded by chance once in 1,000
}

TEST_CASE("permutation: where an element goes is even over a large range") {
  constexpr std::uint64_t kSize = 1000;
  constexpr int kKeys = 10'000;
  std::vector<int> counts(10);
  for (std::uint64_t key = 0; key < kKeys; ++key) ++counts[Permutation(kSize, key)(1) / 100];
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK_LT(chi_squared, 27.88);  // 9 degrees of freedom: once in 1,000
}
