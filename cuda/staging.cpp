#include "ringlet/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "ringlet/cuda/check.h"

namespace ringlet::cuda {

Staging::Slot Staging::make_slot(Device device) {
  const DeviceGuard guard(device);
  void* data = nullptr;
  RINGLET_CUDA(cudaHostAlloc(&data, kSlot, cudaHostAllocPortable));
  return {static_cast<std::byte*>(data), Event(device)};
}

Staging::Staging(Device device) : device_(device), slots_{make_slot(device), make_slot(device)} {}

Staging::~Staging() {
  for (const Slot& slot : slots_) cudaFreeHost(slot.data);
}

void Staging::upload(std::byte* to, const std::byte* from, std::size_t nbytes,
                     cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const DeviceGuard guard(device_);
  for (std::size_t done = 0, i = 0; done < nbytes; done += kSlot, ++i) {
    const Slot& slot = slots_[i % slots_.size()];
    const std::size_t piece = std::min(kSlot, nbytes - done);
    slot.free.synchronize();
    std::memcpy(slot.data, from + done, piece);
    RINGLET_CUDA(cudaMemcpyAsync(to + done, slot.data, piece, cudaMemcpyHostToDevice, stream));
    slot.free.record(stream);
  }
}

void Staging::download(std::byte* to, const std::byte* from, std::size_t nbytes,
                       cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const DeviceGuard guard(device_);
  const std::size_t pieces = (nbytes + kSlot - 1) / kSlot;
  // Piece i sets out before piece i - 1 is taken from its slot.
  for (std::size_t i = 0; i <= pieces; ++i) {
    if (i < pieces) {
      const Slot& slot = slots_[i % slots_.size()];
      const std::size_t piece = std::min(kSlot, nbytes - i * kSlot);
      slot.free.synchronize();  // an upload may still be on its way out of it
      RINGLET_CUDA(
          cudaMemcpyAsync(slot.data, from + i * kSlot, piece, cudaMemcpyDeviceToHost, stream));
      slot.free.record(stream);
    }
    if (i > 0) {
      const Slot& slot = slots_[(i - 1) % slots_.size()];
      const std::size_t begin = (i - 1) * kSlot;
      slot.free.synchronize();
      std::memcpy(to + begin, slot.data, std::min(kSlot, nbytes - begin));
    }
  }
}

}  // namespace ringlet::cuda
