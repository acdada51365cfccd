#include "ringlet/cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ringlet/cuda/check.h"
#include "ringlet/cuda/pinned.h"

namespace ringlet::cuda {

Staging::Staging(Device device)
    : device_(device),
      slots_{Slot{allocate_pinned(device, kSlot), Event(device)},
             Slot{allocate_pinned(device, kSlot), Event(device)}},
      ring_data_(allocate_pinned(device, kRing)) {}

Staging::~Staging() {
  for (const Slot& slot : slots_) cudaFreeHost(slot.data);
  cudaFreeHost(ring_data_);
}

Event Staging::take_event() {
  if (events_.empty()) return Event(device_);
  Event event = std::move(events_.back());
  events_.pop_back();
  return event;
}

void Staging::upload(std::byte* to, const std::byte* from, std::size_t nbytes,
                     cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const DeviceGuard guard(device_);
  ring_.collect([&](Event& sent) {
    const bool done = sent.done();
    if (done) events_.push_back(std::move(sent));
    return done;
  });
  for (std::size_t done = 0; done < nbytes; done += kUpload) {
    const std::size_t piece = std::min(kUpload, nbytes - done);
    std::byte* const between = ring_data_ + ring_.reserve(piece, [&](Event& sent) {
      sent.synchronize();
      events_.push_back(std::move(sent));
    });
    std::memcpy(between, from + done, piece);
    Event sent = take_event();
    RINGLET_CUDA(cudaMemcpyAsync(to + done, between, piece, cudaMemcpyHostToDevice, stream));
    sent.record(stream);
    ring_.add(piece, std::move(sent));
  }
}

void Staging::download(std::byte* to, const std::byte* from, std::size_t nbytes,
                       cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const DeviceGuard guard(device_);
  const std::size_t pieces = (nbytes + kSlot - 1) / kSlot;
  // Piece i is enqueued before piece i - 1 is copied from its slot.
  for (std::size_t i = 0; i <= pieces; ++i) {
    if (i < pieces) {
      const Slot& slot = slots_[i % slots_.size()];
      const std::size_t piece = std::min(kSlot, nbytes - i * kSlot);
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
