#include "ringlet/cuda/upload_ring.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace ringlet;

namespace {

using Ring = cuda::UploadRing<int>;
constexpr std::size_t kUnit = Ring::kAlignment;

}  // namespace

TEST_CASE("uploads: nothing waits while there is room, then only for the oldest in the way") {
  Ring ring(8 * kUnit);
  std::vector<int> waited;
  int next = 0;
  const auto put = [&](std::size_t units) {
    const std::size_t at = ring.reserve(units * kUnit, [&](int& mark) { waited.push_back(mark); });
    ring.add(units * kUnit, next++);
    return at / kUnit;
  };
  CHECK(put(3) == 0);
  CHECK(put(3) == 3);
  CHECK(put(2) == 6);
  CHECK(waited.empty());
  CHECK(put(1) == 0);  // over the first
  CHECK(put(2) == 1);  // beside it
  CHECK(waited == std::vector<int>{0});
  CHECK(put(4) == 3);
  CHECK(waited == std::vector<int>{0, 1, 2});
  ring.collect([](int mark) { return mark < 5; });
  CHECK(put(3) == 0);  // one unit is left at the end, and 3 and 4 are done
  CHECK(waited.size() == 3);
  CHECK(put(8) == 0);
  CHECK(waited == std::vector<int>{0, 1, 2, 5, 6});
}

TEST_CASE("uploads: pieces on their way never lie on each other, whatever their sizes") {
  constexpr std::size_t kBytes = 64 * kUnit;
  Ring ring(kBytes);
  std::mt19937 random(3);
  struct Span {
    std::size_t begin, end;
  };
  std::vector<Span> spans;  // by mark
  std::size_t gone = 0;     // marks that were waited for, in order
  const auto wait = [&](int& mark) { REQUIRE(static_cast<std::size_t>(mark) == gone++); };
  for (int i = 0; i < 4000; ++i) {
    const std::size_t wanted = 1 + random() % (random() % 8 == 0 ? kBytes : kBytes / 16);
    const std::size_t begin = ring.reserve(wanted, wait);
    REQUIRE(begin % kUnit == 0);
    REQUIRE(begin + wanted <= kBytes);
    for (std::size_t j = gone; j < spans.size(); ++j)
      REQUIRE((begin + wanted <= spans[j].begin || spans[j].end <= begin));
    ring.add(wanted, i);
    spans.push_back({begin, begin + wanted});
    if (random() % 16 == 0)
      ring.collect([&](int mark) {
        if (random() % 4 == 0) return false;
        REQUIRE(static_cast<std::size_t>(mark) == gone++);
        return true;
      });
  }
  CHECK(gone > 3000);
}
