// The kernels of emulated CUDA devices: the CPU's, as calls that the device runs at any later time.
#pragma once

#include <functional>

#include "ringlet/core/device/backend.h"

namespace ringlet {

/// Installs itself as the backend of CUDA devices, for its lifetime.
class HostDevice : public DeviceBackend {
 public:
  HostDevice();
  ~HostDevice() override;
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  /// One call for all ranks, with the CPU's sums, if they share the device.
  std::unique_ptr<DeviceRanks> make_ranks(std::span<const Device> of_ranks, double) override;

  using Call = std::function<void()>;
  /// Enqueues a call that computes.
  virtual void give(Device device, Call call) = 0;
};

}  // namespace ringlet
