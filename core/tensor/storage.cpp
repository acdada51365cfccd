#include "ringlet/core/tensor/storage.h"

#include <algorithm>
#include <iterator>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/device/stream.h"

namespace ringlet {
namespace {

void count(const std::shared_ptr<Storage>& sidecar, bool comes) {
  if (!sidecar) return;
  const auto nbytes = static_cast<std::ptrdiff_t>(sidecar->nbytes());
  backend(sidecar->device().type)
      .count_sidecar(sidecar->device(), sidecar->block(), comes ? nbytes : -nbytes);
}

}  // namespace

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
  for (const Sidecar& sidecar : sidecars_) count(sidecar.value, false);
  count(mirror_.value, false);
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
  const auto found =
      std::find_if(uses_.begin(), uses_.end(), [&](const Use& use) { return use.user == user; });
  if (found != uses_.end()) {
    found->until = std::move(until);
  } else {
    uses_.push_back({user, std::move(until)});
  }
}

void Storage::drop_sidecars() {
  const std::lock_guard lock(sidecar_mutex_);
  for (const Sidecar& sidecar : sidecars_) count(sidecar.value, false);
  sidecars_.clear();
  has_sidecars_ = false;
}

void Storage::share_outside() {
  shared_outside_ = true;
  drop_sidecars();
}

std::shared_ptr<Storage> Storage::sidecar(std::size_t offset, const SidecarForm& form,
                                          const std::function<std::shared_ptr<Storage>()>& build,
                                          bool at_once) {
  const std::lock_guard lock(sidecar_mutex_);
  if (shared_outside_) return nullptr;
  const std::uint64_t now = version();  // before the bytes are read
  auto found = std::find_if(sidecars_.begin(), sidecars_.end(), [&](const Sidecar& sidecar) {
    return sidecar.offset == offset && sidecar.form == form && sidecar.version == now;
  });
  if (found == sidecars_.end()) {
    sidecars_.push_back({offset, form, now, nullptr});
    has_sidecars_ = true;
    if (!at_once) return nullptr;
    found = std::prev(sidecars_.end());
  }
  if (!found->value) {
    found->value = build();
    count(found->value, true);
  }
  return found->value;
}

void Storage::set_mirror(std::shared_ptr<Storage> mirror, const void* stream) {
  const std::lock_guard lock(sidecar_mutex_);
  if (mirror != mirror_.value) {
    count(mirror_.value, false);
    count(mirror, true);
  }
  mirror_ = {std::move(mirror), stream, version()};
}

std::shared_ptr<Storage> Storage::mirror(const void* stream) {
  const std::lock_guard lock(sidecar_mutex_);
  const bool is_read = mirror_.version == version() && mirror_.stream == stream;
  return is_read && !shared_outside_ ? mirror_.value : nullptr;
}

}  // namespace ringlet
