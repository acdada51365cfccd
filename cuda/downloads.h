// Asynchronous copies to the host, each in a dedicated pinned slot until it is released.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/core/device/backend.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {

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
