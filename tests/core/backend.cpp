#include "ringlet/core/backend.h"

#include <doctest/doctest.h>

#include "ringlet/core/error.h"

using namespace ringlet;

namespace {

/// A driver that finds no device and says why.
class Empty final : public Backend {
 public:
  int device_count() const override { return 0; }
  std::string why_none() const override { return "the driver is too old"; }
  Block allocate(Device, std::size_t) override { return {}; }
  void release(Device, const Block&) override {}
  void copy(void*, Device, const void*, Device, std::size_t) override {}
  void synchronize(Device) override {}
  MemoryStats memory(Device) const override { return {}; }
  void count_sidecar(Device, const Block&, std::ptrdiff_t) override {}
  void reset_peak(Device) override {}
  void set_limit(Device, std::size_t) override {}
};

}  // namespace

TEST_CASE("where there is no device, the error says why") {
  if (has_backend(DeviceType::cuda)) return;
  Empty empty;
  set_backend(DeviceType::cuda, &empty);
  CHECK_THROWS_WITH_AS(backend(DeviceType::cuda), "no CUDA device: the driver is too old", Error);
  CHECK_THROWS_WITH_AS(set_default_device({DeviceType::cuda, 0}),
                       "no CUDA device: the driver is too old", Error);
  set_backend(DeviceType::cuda, nullptr);
  CHECK_THROWS_WITH_AS(set_default_device({DeviceType::cuda, 0}), "no CUDA device", Error);
}
