// Devices, streams and events. Work of one device runs in the order in which it is given, on the
// device's one stream, whatever thread gives it, unless set_stream() chooses another.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "ringlet/core/device.h"

namespace ringlet::cuda {

inline constexpr int kMostDevices = 64;

/// How many there are: 0 without a device or a driver. Never throws; asks once.
int device_count();
/// CUDA's words for why device_count() is 0; empty where it is not.
const std::string& why_no_device();

/// Makes `device` CUDA's current one for a scope; the first other than 0 in a thread stays current.
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

/// A stream of its own, which does not wait for CUDA's default stream.
class Stream {
 public:
  explicit Stream(Device device);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;

  cudaStream_t get() const { return stream_; }
  Device device() const { return device_; }
  void synchronize() const;

 private:
  Device device_;
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream, for others to wait for; without times unless asked for.
class Event {
 public:
  explicit Event(Device device, bool timed = false);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;

  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream) const;
  /// What is given to `stream` from now on waits on the device, not on the host.
  void make_wait(cudaStream_t stream) const;
  void synchronize() const;
  bool done() const;
  /// From `start` to this, both timed and done.
  float milliseconds_since(const Event& start) const;

 private:
  Device device_;
  cudaEvent_t event_ = nullptr;
};

/// Where this thread's work for the device goes.
cudaStream_t current_stream(Device device);
/// From now on it goes to `stream`, null: to the device's one; returns what this said before.
cudaStream_t set_stream(Device device, cudaStream_t stream);

}  // namespace ringlet::cuda
