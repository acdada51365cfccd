// Copies between pageable host memory and a device, through pinned memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/device.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/upload_ring.h"

namespace ringlet::cuda {

class Staging {
 public:
  explicit Staging(Device device);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Ordered on `stream`. On return `from` has been read; `to` is written for later work of the
  /// stream. Waits only if kRing bytes are in flight.
  void upload(std::byte* to, const std::byte* from, std::size_t nbytes, cudaStream_t stream);
  /// Ordered on `stream`; `to` is written on return.
  void download(std::byte* to, const std::byte* from, std::size_t nbytes, cudaStream_t stream);

 private:
  static constexpr std::size_t kSlot = std::size_t{4} << 20;
  static constexpr std::size_t kRing = std::size_t{8} << 20;
  static constexpr std::size_t kUpload = kRing / 4;  // one is filled, others are in flight
  struct Slot {
    std::byte* data = nullptr;  // kSlot pinned bytes
    Event free;                 // when the device is done with them
  };
  Event take_event();

  std::mutex mutex_;
  Device device_;
  std::array<Slot, 2> slots_;  // of downloads: one is read while the other is in flight
  std::byte* ring_data_;
  UploadRing<Event> ring_{kRing};
  std::vector<Event> events_;  // unused ones
};

/// Asynchronous copies to the host, each in a dedicated pinned slot until it is released.
class Downloads {
 public:
  explicit Downloads(Device device) : device_(device) {}
  Downloads(const Downloads&) = delete;
  Downloads& operator=(const Downloads&) = delete;

  /// Ordered on `stream`; this object outlives the result.
  std::unique_ptr<DeviceDownload> start(const void* from, std::size_t nbytes, cudaStream_t stream);

 private:
  static constexpr std::size_t kLeast = 256;  // bytes of a slot: most downloads are one number
  struct Slot {
    Slot(Device device, std::size_t nbytes);
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    std::size_t nbytes;
    Event arrived;
    std::byte* data;
  };
  class Started;
  std::unique_ptr<Slot> take(std::size_t nbytes);

  Device device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> free_;
};

}  // namespace ringlet::cuda
