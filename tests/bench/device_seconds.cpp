#include "ringlet/bench/device_seconds.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "ringlet/bench/ceilings.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/ops/elementwise.h"

using namespace ringlet;
using namespace ringlet::bench;

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
