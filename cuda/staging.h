// Copies between pageable host memory and a device, through pinned memory.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>

#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {

class Staging {
 public:
  explicit Staging(Device device);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// In the order of `stream`; `from` has been read on return, `to` is there for later work.
  void upload(std::byte* to, const std::byte* from, std::size_t nbytes, cudaStream_t stream);
  /// In the order of `stream`; `to` is there on return.
  void download(std::byte* to, const std::byte* from, std::size_t nbytes, cudaStream_t stream);

 private:
  static constexpr std::size_t kSlot = std::size_t{4} << 20;
  struct Slot {
    std::byte* data = nullptr;  // kSlot pinned bytes
    Event free;                 // when the device is done with them
  };
  static Slot make_slot(Device device);

  std::mutex mutex_;
  Device device_;
  std::array<Slot, 2> slots_;  // one is filled or emptied while the other travels
};

}  // namespace ringlet::cuda
