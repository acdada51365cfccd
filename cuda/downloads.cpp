#include "ringlet/cuda/downloads.h"

#include <algorithm>
#include <utility>

#include "ringlet/cuda/bad_input.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/pinned.h"

namespace ringlet::cuda {

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
    check_bad_input();
    return slot_->data;
  }

 private:
  Downloads& of_;
  std::unique_ptr<Slot> slot_;
};

Downloads::Slot::Slot(Device device, std::size_t nbytes)
    : nbytes(nbytes), arrived(device), data(allocate_pinned(device, nbytes)) {}
Downloads::Slot::~Slot() { cudaFreeHost(data); }

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
