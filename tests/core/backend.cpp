#include "ringlet/core/device/backend.h"

#include <doctest/doctest.h>

#include "fake_backend.h"
#include "ringlet/core/base/error.h"

using namespace ringlet;

TEST_CASE("where there is no device, the error says why") {
  if (has_backend(DeviceType::cuda)) return;
  {
    const FakeBackend none(0);
    CHECK_THROWS_WITH_AS(backend(DeviceType::cuda), "no CUDA device: the driver is too old", Error);
    CHECK_THROWS_WITH_AS(set_default_device({DeviceType::cuda, 0}),
                         "no CUDA device: the driver is too old", Error);
  }
  CHECK_THROWS_WITH_AS(set_default_device({DeviceType::cuda, 0}), "no CUDA device", Error);
}
