// Which algorithm a product uses, and when it is chosen: needs no device and no toolkit.
#include "ringlet/cuda/product_choice.h"

#include <doctest/doctest.h>

using namespace ringlet::cuda;

namespace {

/// Chooses among choices with these milliseconds; no value: different bits.
TimedChoice choose(const std::vector<std::optional<float>>& times) {
  std::size_t runs = 0;
  const TimedChoice choice = fastest_alike(times.size(), [&](std::size_t i) {
    CHECK(i == runs++);
    return times[i];
  });
  return choice;
}

}  // namespace

TEST_CASE("a product is timed once: where shapes recur at its first use, else at its fiftieth") {
  TimedOnce recurring;
  CHECK(recurring.is_due(false, true));
  for (int i = 0; i < 100; ++i) CHECK_FALSE(recurring.is_due(false, true));

  TimedOnce changing;
  for (int use = 1; use < kUsesBeforeTiming; ++use) CHECK_FALSE(changing.is_due(false, false));
  CHECK(changing.is_due(false, false));
  CHECK_FALSE(changing.is_due(false, false));
}

TEST_CASE("a capture times nothing, and the first use behind it does") {
  TimedOnce product;
  for (int i = 0; i < 100; ++i) CHECK_FALSE(product.is_due(true, true));
  CHECK_FALSE(product.is_due(false, false));
  CHECK(product.is_due(false, true));
}

TEST_CASE("the fastest choice with the first one's bits is taken") {
  const TimedChoice choice = choose({4.f, {}, 3.f, 2.f, 5.f});
  CHECK(choice.index == 3);
  CHECK(choice.alike == 4);
  CHECK(choice.first_ms == 4);
  CHECK(choice.ms == 2);
}

TEST_CASE("the first choice stays where none with its bits is faster, or it does not run") {
  CHECK(choose({4.f, 4.f, {}}).index == 0);
  CHECK(choose({4.f}).alike == 1);
  const TimedChoice fails = choose({{}});
  CHECK(fails.index == 0);
  CHECK(fails.alike == 0);
  // If the first cannot run there are no bits to compare, so the others are not tried.
  int asked = 0;
  fastest_alike(3, [&](std::size_t) -> std::optional<float> {
    ++asked;
    return {};
  });
  CHECK(asked == 1);
}
