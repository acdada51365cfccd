// Giving a module's buffer the value that another rank or device has.
#pragma once

#include <cstring>

#include "ringlet/core/tensor.h"

namespace ringlet::train {

/// One that has the value already stays unwritten: a graph may hold it.
inline void update_buffer(Tensor buffer, const Tensor& value) {
  const bool here = buffer.device().type == DeviceType::cpu && value.device() == buffer.device();
  if (here && std::memcmp(buffer.bytes(), value.bytes(), buffer.nbytes()) == 0) return;
  buffer.copy_(value);
}

}  // namespace ringlet::train
