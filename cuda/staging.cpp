#include "ringlet/cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/peer_ranks.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {

Staging::Staging(Device device)
    : device_(device),
      slots_{Slot{allocate_pinned(device, kSlot), Event(device)},
             Slot{allocate_pinned(device, kSlot), Event(device)}},
      ring_data_(allocate_pinned(device, kRing)) {}

Staging::~Staging() {
  for (const Slot& slot : slots_) free_pinned(slot.data);
  free_pinned(ring_data_);
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

class Downloads::Started final : public DeviceDownload {
 public:
  Started(Downloads& of, std::unique_ptr<Slot> slot) : of_(of), slot_(std::move(slot)) {}
  ~Started() override {
    const std::lock_guard lock(of_.mutex_);
    of_.free_.push_back(std::move(slot_));
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  const std::byte* wait() override {
    slot_->arrived.synchronize();
    check_reports();
    return slot_->data;
  }

 private:
  Downloads& of_;
  std::unique_ptr<Slot> slot_;
};

Downloads::Slot::Slot(Device device, std::size_t nbytes)
    : nbytes(nbytes), arrived(device), data(allocate_pinned(device, nbytes)) {}
Downloads::Slot::~Slot() { free_pinned(data); }

// One that was let go before its bytes had come is written to until they have.
std::unique_ptr<Downloads::Slot> Downloads::take(std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& slot) {
    return slot->nbytes >= nbytes && slot->arrived.done();
  });
  if (found == free_.end()) return std::make_unique<Slot>(device_, std::max(nbytes, kLeast));
  std::unique_ptr<Slot> slot = std::move(*found);
  free_.erase(found);
  return slot;
}

std::unique_ptr<DeviceDownload> Downloads::start(const void* from, std::size_t nbytes,
                                                 cudaStream_t stream) {
  const DeviceGuard guard(device_);
  std::unique_ptr<Slot> slot = take(nbytes);
  RINGLET_CUDA(cudaMemcpyAsync(slot->data, from, nbytes, cudaMemcpyDeviceToHost, stream));
  slot->arrived.record(stream);
  return std::make_unique<Started>(*this, std::move(slot));
}

}  // namespace ringlet::cuda
