// Copies between pageable host memory and a device, through pinned memory.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

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

}  // namespace ringlet::cuda
