// Sidecars and mirrors of a storage, which are storages themselves.
#include <algorithm>
#include <iterator>

#include "ringlet/core/device/backend.h"
#include "ringlet/core/tensor/storage.h"

namespace ringlet {
namespace {

void count(const std::shared_ptr<Storage>& sidecar, bool comes) {
  if (!sidecar) return;
  const auto nbytes = static_cast<std::ptrdiff_t>(sidecar->nbytes());
  backend(sidecar->device().type)
      .count_sidecar(sidecar->device(), sidecar->block(), comes ? nbytes : -nbytes);
}

}  // namespace

StorageForms::~StorageForms() {
  for (const Sidecar& sidecar : sidecars_) count(sidecar.value, false);
  count(mirror_.value, false);
}

void StorageForms::drop_sidecars() {
  const std::lock_guard lock(sidecar_mutex_);
  for (const Sidecar& sidecar : sidecars_) count(sidecar.value, false);
  sidecars_.clear();
  has_sidecars_ = false;
}

void StorageForms::share_outside() {
  shared_outside_ = true;
  drop_sidecars();
}

std::shared_ptr<Storage> StorageForms::sidecar(
    std::size_t offset, const SidecarForm& form,
    const std::function<std::shared_ptr<Storage>()>& build, bool at_once) {
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

void StorageForms::set_mirror(std::shared_ptr<Storage> mirror, const void* stream) {
  const std::lock_guard lock(sidecar_mutex_);
  if (mirror != mirror_.value) {
    count(mirror_.value, false);
    count(mirror, true);
  }
  mirror_ = {std::move(mirror), stream, version()};
}

std::shared_ptr<Storage> StorageForms::mirror(const void* stream) {
  const std::lock_guard lock(sidecar_mutex_);
  const bool is_read = mirror_.version == version() && mirror_.stream == stream;
  return is_read && !shared_outside_ ? mirror_.value : nullptr;
}

}  // namespace ringlet
