// Devices, streams and events. The work of a device runs in the order of the calls, from any
// thread, on the device's one stream, unless set_stream() chooses another.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <type_traits>

#include "ringlet/core/device/device.h"
#include "ringlet/core/device/device_objects.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/device/stream.h"

namespace ringlet::cuda {

inline constexpr int kMostDevices = 64;

/// The number of devices: 0 without a device or a driver. Never throws; queries CUDA once.
int device_count();
/// CUDA's message if device_count() is 0; else empty.
const std::string& why_no_device();

/// Makes `device` CUDA's current one for this thread; the first time its context, too, behind the
/// launch gate.
void set_current(Device device);
/// The same for a scope. The first one other than 0 in a thread stays current.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// A separate stream, which does not wait for CUDA's default stream.
class Stream {
 public:
  Stream(Device device, StreamPriority priority);

  cudaStream_t get() const { return stream_.get(); }
  Device device() const { return device_; }
  StreamPriority priority() const { return priority_; }

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  Device device_;
  StreamPriority priority_;
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> stream_;
};

/// A point in a stream that other streams wait for; records times only if `timed`.
class Event {
 public:
  explicit Event(Device device, bool timed = false);

  cudaEvent_t get() const { return event_.get(); }
  void record(cudaStream_t stream) const;
  /// Later work on `stream` waits on the device, not on the host.
  void make_wait(cudaStream_t stream) const;
  void synchronize() const;
  bool done() const;
  /// From `start` to this event; both timed and done.
  float milliseconds_since(const Event& start) const;

 private:
  struct Destroy {
    Device device;
    void operator()(cudaEvent_t event) const;
  };
  Device device_;
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

/// The stream of this thread's work for the device.
cudaStream_t current_stream(Device device);
/// Replaces it by `stream`, null: the device's one; returns the previous argument.
cudaStream_t set_stream(Device device, cudaStream_t stream);

std::unique_ptr<DeviceStream> make_stream(Device device, StreamPriority priority);
std::unique_ptr<DeviceEvent> make_event(Device device);

std::unique_ptr<DeviceTime> device_time(Device device);
void hold(Device device, double seconds);

/// After the first call, copies from `from` to `to` use the direct link between them, if there is
/// one. Otherwise false: cudaMemcpyPeerAsync then stages copies through host memory of the driver.
bool enable_peer_access(Device to, Device from);

/// Pinned for every device. Error, with the size, if the host has no such memory left.
std::byte* allocate_pinned(Device device, std::size_t nbytes);
void free_pinned(void* data) noexcept;

}  // namespace ringlet::cuda
