#include "ringlet/autograd/functions.h"

#include <doctest/doctest.h>

#include "../delayed_device.h"
#include "../second_device.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;
using namespace ringlet::autograd;
using Floats = std::vector<float>;

TEST_CASE("a copy is on the other device, its gradient comes back") {
  const Variable x(tensor({2.f, 3.f}), true);
  const Variable y = to(x, second_device());
  CHECK_EQ(y.device(), second_device());
  CHECK(y.tensor().to_vector() == Floats{2, 3});
  sum(y * y).backward();
  CHECK_EQ(x.grad().device(), default_device());
  CHECK(x.grad().to_vector() == Floats{4, 6});
}

TEST_CASE("gradients of uses on two devices add up on the owner's") {
  const Variable x(tensor({2.f}), true);
  const Variable there = to(x, second_device());
  sum(to(there * there, default_device()) + x * 3).backward();
  CHECK(x.grad().item() == 7);
}

TEST_CASE("a copy to the same device is the variable itself; none stays none") {
  const Variable x(tensor({2.f}), true);
  CHECK(to(x, default_device()) == x);
  CHECK_FALSE(to(Variable(), second_device()).defined());
}

// A product waits for the copy that it reads, a copy for the product that it sends. Seeds choose
// the order in which the devices' streams proceed otherwise.
TEST_CASE("streams of asynchronous devices are ordered by copies in both directions" *
          doctest::test_suite("host")) {
  const auto gradients = [](std::vector<Device> devices) {
    const GeneratorGuard random({.seed = 7});
    const DefaultDeviceGuard first(devices.front());
    const Variable start(normal({5, 8}), true);
    std::vector<Variable> weights;
    Variable x = start;
    for (int i = 0; i < 6; ++i) {
      const Device device = devices[static_cast<std::size_t>(i) % devices.size()];
      weights.emplace_back(normal({8, 8}).to(device), true);
      x = tanh(linear(to(x, device), weights.back(), {}));
    }
    sum(square(to(x, devices.front()))).backward();
    std::vector<Floats> all{start.grad().to_vector()};
    for (const Variable& weight : weights) all.push_back(weight.grad().to_vector());
    return all;
  };
  const std::vector<Floats> expected = gradients({Device{}});
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const DelayedDevice device(seed);
    CHECK(gradients({{DeviceType::cuda, 0}, {DeviceType::cuda, 1}, {DeviceType::cuda, 2}}) ==
          expected);
  }
}
