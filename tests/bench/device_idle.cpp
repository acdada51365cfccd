#include "ringlet/bench/device_idle.h"

#include <doctest/doctest.h>

#include <utility>

#include "ringlet/core/base/error.h"

using namespace ringlet;
using namespace ringlet::bench;

namespace {

/// A device that is busy for 3 ms of each step and idle for 1 ms before the next, on two streams.
struct Recorded final : cuda::ActivityRecording {
  std::vector<cuda::Interval> take() override { return std::exchange(work, {}); }
  void step() {
    work.push_back({now, now + 2'000'000});
    work.push_back({now + 1'000'000, now + 3'000'000});
    now += 4'000'000;
  }
  std::uint64_t now = 1'000;
  std::vector<cuda::Interval> work;
};

}  // namespace

TEST_CASE("how idle a device is counts from the first to the last that it does in replayed steps") {
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
  CHECK(idle.span_ms == doctest::Approx(19.0 / 5));
  CHECK(idle.busy_ms == 3);
  CHECK(idle.longest_gap_ms == 1);
  CHECK(idle.share == doctest::Approx(4.0 / 19));
}

TEST_CASE("where nothing is replayed or recorded there is no figure") {
  Recorded recorded;
  int runs = 0;
  CHECK_THROWS_WITH_AS(record_idle(recorded, 5, [&](int) { return ++runs < 0; }),
                       doctest::Contains("no 5 steps in a row were all replayed"), Error);
  CHECK(runs == 11);
  CHECK_THROWS_WITH_AS(record_idle(recorded, 5, [](int) { return true; }),
                       doctest::Contains("nothing that the device did was recorded"), Error);
}
