// Another device of the default one's type, for modules on several devices.
#pragma once

#include "ringlet/core/device/backend.h"

namespace ringlet {

/// The default device itself where there is no other.
inline Device second_device() {
  const Device first = default_device();
  return {first.type, (first.index + 1) % backend(first.type).device_count()};
}

}  // namespace ringlet
