#include "ringlet/core/tensor/host_copy.h"

#include <doctest/doctest.h>

#include <vector>

#include "../delayed_device.h"
#include "../device.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/device_time.h"

using namespace ringlet;

TEST_CASE("values on their way are those of when they set out, whatever is written later") {
  Tensor x = tensor<float>({1, 2.5f, -3});
  HostCopy three(x);
  x.fill_(7);
  HostCopy sevens(x), one(tensor<double>({0.1}));
  x = Tensor();
  CHECK(sevens.values() == std::vector<double>(3, 7));
  CHECK(three.values() == std::vector<double>{1, 2.5, -3});
  CHECK(three.values() == std::vector<double>{1, 2.5, -3});
  CHECK(one.item() == 0.1);
  CHECK_THROWS_WITH_AS(three.item(), "[host_copy] one element is needed: 3 != 1", Error);
  CHECK(HostCopy(empty({0})).values().empty());
}

TEST_CASE("many at once, read in another order, and some never") {
  std::vector<HostCopy> copies;
  for (int i = 0; i < 100; ++i) {
    copies.emplace_back(full({i}, i));
    HostCopy unread(full({8}, -1));
  }
  for (int i = 99; i >= 0; --i)
    CHECK(copies[static_cast<std::size_t>(i)].values() ==
          std::vector<double>(static_cast<std::size_t>(i), i));
}

TEST_CASE("a copy of no tensor is refused") {
  HostCopy none;
  CHECK(!none.defined());
  CHECK_THROWS_WITH_AS(none.values(), "[host_copy] of no tensor", Error);
}

TEST_CASE_FIXTURE(OnCpu, "an asynchronous device continues during the wait for a copy") {
  CHECK(!is_asynchronous(Device{}));
  if (has_backend(DeviceType::cuda)) return;
  const DelayedDevice delayed;
  const Device device{DeviceType::cuda, 0};
  CHECK(is_asynchronous(device));
  Tensor x = full({2}, 1, DType::f32, device);
  HostCopy first(x);
  x.fill_(2);
  CHECK(first.values() == std::vector<double>{1, 1});
  CHECK(delayed.ran_dry() == 0);
  CHECK(x.to_vector() == std::vector<float>{2, 2});
  CHECK(delayed.ran_dry() == 1);
}
