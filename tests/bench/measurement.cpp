#include <doctest/doctest.h>
#include <cmath>
#include <set>
#include <utility>

#include "ringlet/bench/ceilings.h"
#include "ringlet/bench/device_idle.h"
#include "ringlet/bench/measurement.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/ops/elementwise.h"

using namespace ringlet;
using namespace ringlet::bench;

TEST_SUITE_BEGIN("host");

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

TEST_CASE("a run is repeated until its device's clock has a figure") {
  const Device device = default_device();
  Tensor x = zeros({1 << 12});
  int runs = 0;
  const auto one = [&] {
    ++runs;
    x = add(x, x);
  };
  CHECK(device_seconds(device, one, 1e-3) > 0);
  CHECK(runs >= 7);  // a warm-up, one timed run, and at least one batch of five
}

TEST_CASE("times of a device follow each other, and holding a CPU back takes no time") {
  const Device device = default_device();
  const auto first = device_time(device);
  Tensor x = zeros({1 << 16});
  for (int i = 0; i < 10; ++i) x = add(x, x);
  const auto second = device_time(device);
  CHECK(second->seconds_since(*first) > 0);
  const auto before = device_time(Device{});
  hold(Device{}, 30);
  CHECK(device_time(Device{})->seconds_since(*before) < 10);
}

TEST_CASE("the rates of a device's products and copies are positive and finite") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double rate = product_rate(default_device(), dtype, 64);
    CHECK((rate > 0 && std::isfinite(rate)));
  }
  const std::vector<float> copied = noise(default_device(), 1 << 16).to_vector();
  CHECK(copied.size() == 1 << 14);
  CHECK(std::set(copied.begin(), copied.end()).size() > copied.size() * 99 / 100);
  const double rate = copy_rate(default_device(), 1 << 16);
  CHECK((rate > 0 && std::isfinite(rate)));
}
