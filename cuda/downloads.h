// Copies to the host that nobody waits for yet, each in pinned memory of its own until it is let
// go.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/core/backend.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {

class Downloads {
 public:
  explicit Downloads(Device device) : device_(device) {}
  Downloads(const Downloads&) = delete;
  Downloads& operator=(const Downloads&) = delete;

  /// In the order of `stream`; this outlives what is returned.
  std::unique_ptr<Download> start(const void* from, std::size_t nbytes, cudaStream_t stream);

 private:
  static constexpr std::size_t kLeast = 256;  // bytes of a slot: most are of one number
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
