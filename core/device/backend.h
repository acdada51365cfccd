// The interface of a device type besides kernels: memory and copies. Streams, events, graphs and
// links of asynchronous devices are in DeviceWork, its base.
#pragma once

#include <memory>
#include <string>

#include "ringlet/core/device/device_objects.h"
#include "ringlet/core/device/memory.h"

namespace ringlet {

class DeviceBackend : public DeviceWork {
 public:
  virtual int device_count() const = 0;
  /// The driver's reason why device_count() is 0; empty if unknown.
  virtual std::string why_none() const { return ""; }
  virtual MemoryBlock allocate(Device device, std::size_t nbytes) = 0;
  virtual void release(Device device, const MemoryBlock& block) = 0;
  /// Copies between devices, of which at least one is this backend's. If either is a CPU, the host
  /// can read the result when this returns.
  virtual void copy(void* to, Device to_device, const void* from, Device from_device,
                    std::size_t nbytes) = 0;
  /// Copies from another device of the type, on the stream of `to_device` only. The caller orders
  /// the copy after the work of `from_device`.
  virtual void fetch(void* to, Device to_device, const void* from, Device from_device,
                     std::size_t nbytes) {
    copy(to, to_device, from, from_device, nbytes);
  }
  /// Waits for all work of the device, from any thread.
  virtual void synchronize(Device device) = 0;
  /// Starts a copy to the host, ordered after this thread's earlier work on the device; does not
  /// wait, unless the device is synchronous.
  virtual std::unique_ptr<DeviceDownload> start_download(Device device, const void* from,
                                                         std::size_t nbytes);
  virtual MemoryStats memory(Device device) const = 0;
  /// Counts a sidecar of `nbytes` in this block; negative when it is released.
  virtual void count_sidecar(Device device, const MemoryBlock& block, std::ptrdiff_t nbytes) = 0;
  virtual void reset_peak(Device device) = 0;
  virtual void set_limit(Device device, std::size_t nbytes) = 0;

  /// The descriptor with which other processes can map the block now; -1 if there is none.
  virtual int descriptor(Device, const MemoryBlock&) const { return -1; }
  /// Called first in a forked child: makes inherited memory a private copy, page by page on write.
  virtual void own_inherited_memory() {}
};

/// "no CUDA device", followed by the reason if it is known.
std::string no_device(DeviceType type);
/// The backend of a device type; throws no_device() if there is none.
DeviceBackend& backend(DeviceType type);
/// Whether at least one device of the type exists.
bool has_backend(DeviceType type);
void set_backend(DeviceType type, DeviceBackend* backend);

/// Fill the kernel tables and install the backend. Each is defined in its folder (cuda/ has a stub
/// for builds without the toolkit). Only ensure_registered() (kernel.h) calls them, once.
void register_cpu();
void register_cuda();

}  // namespace ringlet
