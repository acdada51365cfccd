// Scratch of a kernel, from the caching allocator. Usable immediately by the thread's stream; after
// release by that stream's later work.
#pragma once

#include "ringlet/core/device/backend.h"

namespace ringlet::cuda {

class Workspace {
 public:
  /// `nbytes` uninitialised bytes of the device, aligned to 512; none for 0.
  Workspace(Device device, std::size_t nbytes) : device_(device), nbytes_(nbytes) {
    if (nbytes > 0) block_ = backend(DeviceType::cuda).allocate(device, nbytes);
  }
  ~Workspace() {
    if (block_.data) backend(DeviceType::cuda).release(device_, block_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* data() const { return block_.data; }
  std::size_t nbytes() const { return nbytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(block_.data);
  }

 private:
  Device device_;
  std::size_t nbytes_;
  MemoryBlock block_;
};

}  // namespace ringlet::cuda
