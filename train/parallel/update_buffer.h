// Updates a module's buffer from another rank or device.
#pragma once

#include <cstring>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::train {

/// A buffer that has the value already is not written: a graph may hold it.
inline void update_buffer(Tensor buffer, const Tensor& value) {
  const bool here = buffer.device().type == DeviceType::cpu && value.device() == buffer.device();
  if (here && std::memcmp(buffer.bytes(), value.bytes(), buffer.nbytes()) == 0) return;
  buffer.copy_(value);
}

}  // namespace ringlet::train
