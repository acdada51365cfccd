// Cases that only a GPU can run.
#pragma once

#include <doctest/doctest.h>

#include "ringlet/core/device/device.h"

namespace ringlet {

/// Prints a message if there is none.
inline bool skipped() {
  if (default_device().type == DeviceType::cuda) return false;
  MESSAGE("skipped: needs a GPU and --device cuda");
  return true;
}

}  // namespace ringlet
