#include "ringlet/bench/device_idle.h"

#include <doctest/doctest.h>

#include <utility>

#include "ringlet/core/base/error.h"

using namespace ringlet;
using namespace ringlet::bench;

namespace {

/// A device with a copy of 0.5 ms and, 0.5 ms later, a graph of 2 ms on two streams, every 4 ms.
struct Recorded final : cuda::ActivityRecording {
  std::vector<cuda::Activity> take() override { return std::exchange(work, {}); }
  void step() {
    work.push_back({{now, now + 500'000}, "copy"});
    work.push_back({{now + 1'000'000, now + 2'000'000}, "first", true});
    work.push_back({{now + 1'500'000, now + 3'000'000}, "last", true});
    now += 4'000'000;
  }
  std::uint64_t now = 1'000;
  std::vector<cuda::Activity> work;
};

}  // namespace

TEST_CASE("how idle a device is counts from the first graph to the last work of replayed steps") {
  Recorded recorded;
  int runs = 0;
  const DeviceIdle idle = record_idle(recorded, 5, [&](int steps) {
    for (int i = 0; i < steps; ++i) recorded.step();
    // The first call starts the recording, the second one has a capture.
    if (++runs < 3) recorded.now += 100'000'000, recorded.step();
    return runs != 2;
  });
  CHECK(runs == 3);
  CHECK(idle.steps == 5);
  CHECK(idle.before_ms == 1);
  CHECK(idle.span_ms == doctest::Approx(18.0 / 5));
  CHECK(idle.busy_ms == doctest::Approx(12.0 / 5));
  CHECK(idle.share == doctest::Approx(6.0 / 18));
  CHECK(idle.longest_gap_ms == 1);
  CHECK(idle.longest_gap_at == doctest::Approx(2.0 / 18));
  CHECK(idle.longest_from == "last");
  CHECK(idle.longest_to == "copy");
  CHECK(idle.share_without_longest == doctest::Approx(5.0 / 17));
}

TEST_CASE("where nothing is replayed or recorded there is no figure") {
  Recorded recorded;
  int runs = 0;
  CHECK_THROWS_WITH_AS(record_idle(recorded, 5, [&](int) { return ++runs < 0; }),
                       doctest::Contains("no 5 steps in a row were all replayed"), Error);
  CHECK(runs == 11);
  CHECK_THROWS_WITH_AS(record_idle(recorded, 5, [](int) { return true; }),
                       doctest::Contains("nothing of a graph was recorded"), Error);
}
