// Division by a launch's constant equals the processor's for all numbers.
#include "ringlet/cuda/divider.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace ringlet::cuda {
namespace {

void check_dividers(std::int64_t divisor, std::int64_t n) {
  const Division at = divide(n, Divider(divisor));
  CAPTURE(divisor);
  CAPTURE(n);
  CHECK(at.quotient == n / divisor);
  CHECK(at.remainder == n % divisor);
}

TEST_CASE("cuda divider: small numbers, powers of two and the largest") {
  constexpr std::int64_t kLargest = INT64_MAX;
  for (std::int64_t divisor = 1; divisor < 130; ++divisor)
    for (std::int64_t n = 0; n < 300; ++n) check_dividers(divisor, n);
  for (int bit = 0; bit < 62; ++bit)
    for (std::int64_t around = -1; around <= 1; ++around) {
      const std::int64_t divisor = (std::int64_t{1} << bit) + around;
      if (divisor < 1) continue;
      for (std::int64_t n : {std::int64_t{0}, divisor - 1, divisor, kLargest - 1, kLargest,
                             kLargest / divisor * divisor, kLargest / divisor * divisor - 1})
        check_dividers(divisor, n);
    }
}

TEST_CASE("cuda divider: any divisor of any number") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const auto divisor = static_cast<std::int64_t>(random() >> (2 + random() % 61)) + 1;
    check_dividers(divisor, static_cast<std::int64_t>(random() >> (1 + random() % 63)));
  }
}

}  // namespace
}  // namespace ringlet::cuda
