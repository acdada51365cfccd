// The message for devices that cannot read each other's memory (DeviceBackend::has_link).
#pragma once

#include <string>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/device.h"

namespace ringlet {

inline std::string without_link(Device to, Device from) {
  return str(
      to, " has no peer access to ", from,
      ": copies between such GPUs go through pinned memory of the host; `ringlet info` shows "
      "which read each other's");
}

}  // namespace ringlet
