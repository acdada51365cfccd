#include "ringlet/core/tensor/storage.h"

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/device/stream.h"

namespace ringlet {

Storage::Storage(std::size_t nbytes, Device device)
    : block_(backend(device.type).allocate(device, nbytes)), nbytes_(nbytes), device_(device) {}

Storage::Storage(std::byte* data, std::size_t nbytes, Device device, std::function<void()> release)
    : nbytes_(nbytes), device_(device), release_(std::move(release)) {
  block_.data = data;
  block_.nbytes = nbytes;
}

Storage::Storage(std::size_t nbytes, Device device, std::function<void(std::byte*)> fill)
    : nbytes_(nbytes), device_(device), fill_(std::move(fill)), unfilled_(true) {
  RINGLET_CHECK(device.type == DeviceType::cpu, "[storage] bytes of ", device,
                " cannot be made when they are looked at");
}

Storage::Storage(std::size_t nbytes, Device device, std::string why)
    : nbytes_(nbytes), device_(device), why_none_(std::move(why)), unfilled_(true) {}

Storage::~Storage() {
  if (!unfilled_) give_back();
}

// The release is ordered after this thread's work, and that is now ordered after the uses.
void Storage::give_back() {
  auto release = [device = device_, block = block_, own = std::move(release_)] {
    own ? own() : backend(device.type).release(device, block);
  };
  if (uses_.empty()) return release();
  const auto behind_uses = [device = device_, uses = std::move(uses_), release] {
    try {
      for (const Use& use : uses) use.until->make_wait(device);
    } catch (const Error&) {
      // The program ends without a driver, or the device has failed: no work runs there.
    }
    release();
  };
  is_capturing() ? run_after_capture(behind_uses) : behind_uses();
}

void Storage::fill() const {
  if (!why_none_.empty()) throw Error(why_none_);
  const std::lock_guard lock(fill_mutex_);
  if (!unfilled_) return;
  DeviceBackend& memory = backend(device_.type);
  const MemoryBlock block = memory.allocate(device_, nbytes_);
  try {
    fill_(block.data);
  } catch (...) {
    memory.release(device_, block);
    throw;
  }
  block_ = block;
  fill_ = nullptr;  // releases the sources of the bytes
  unfilled_.store(false, std::memory_order_release);
}

void Storage::use_until(std::uint64_t user, std::shared_ptr<const StreamEvent> until) {
  if (device_.type == DeviceType::cpu || is_capturing()) return;
  const std::lock_guard lock(use_mutex_);
  std::erase_if(uses_, [&](const Use& use) { return use.user == user; });
  uses_.push_back({user, std::move(until)});
}

}  // namespace ringlet
