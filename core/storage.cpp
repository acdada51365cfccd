#include "ringlet/core/storage.h"

#include <algorithm>

namespace ringlet {

Storage::Storage(std::size_t nbytes, Device device)
    : block_(backend(device.type).allocate(device, nbytes)), nbytes_(nbytes), device_(device) {}

Storage::Storage(std::byte* data, std::size_t nbytes, Device device, std::function<void()> release)
    : nbytes_(nbytes), device_(device), release_(std::move(release)) {
  block_.data = data;
  block_.nbytes = nbytes;
}

Storage::~Storage() {
  if (release_) {
    release_();
  } else {
    backend(device_.type).release(device_, block_);
  }
}

std::shared_ptr<void> Storage::sidecar(std::size_t offset, std::uint64_t key,
                                       const std::function<std::shared_ptr<void>()>& build) {
  const std::lock_guard lock(sidecar_mutex_);
  auto found = std::find_if(sidecars_.begin(), sidecars_.end(), [&](const Sidecar& sidecar) {
    return sidecar.offset == offset && sidecar.key == key;
  });
  if (found == sidecars_.end()) {
    sidecars_.push_back({offset, key, version(), build()});
    return sidecars_.back().value;
  }
  if (found->version != version()) {
    found->value.reset();  // free the old form before the new one is made
    found->value = build();
    found->version = version();
  }
  return found->value;
}

}  // namespace ringlet
