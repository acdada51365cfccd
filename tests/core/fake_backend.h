// A CUDA backend of host memory, for programs without CUDA.
#pragma once

#include "ringlet/core/device/backend.h"

namespace ringlet {

/// `count` devices; without any it reports the reason.
class FakeBackend : public DeviceBackend {
 public:
  explicit FakeBackend(int count) : count_(count) { set_backend(DeviceType::cuda, this); }
  ~FakeBackend() override { set_backend(DeviceType::cuda, nullptr); }
  FakeBackend(const FakeBackend&) = delete;
  FakeBackend& operator=(const FakeBackend&) = delete;

  int device_count() const override { return count_; }
  std::string why_none() const override { return "the driver is too old"; }
  MemoryBlock allocate(Device, std::size_t) override { return {}; }
  void release(Device, const MemoryBlock&) override {}
  void copy(void*, Device, const void*, Device, std::size_t) override {}
  void synchronize(Device) override { ++synchronized; }
  MemoryStats memory(Device) const override { return {}; }
  void count_sidecar(Device, const MemoryBlock&, std::ptrdiff_t) override {}
  void reset_peak(Device) override {}
  void set_limit(Device, std::size_t) override {}

  int synchronized = 0;

 private:
  int count_;
};

}  // namespace ringlet
