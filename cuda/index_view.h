// Indices of i32 or i64.
#pragma once

#include <cstdint>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/base/host_device.h"

namespace ringlet::cuda {

struct IndexView {
  const void* data;
  bool wide;  // i64, else i32

  IndexView(const void* index, DType dtype) : data(index), wide(dtype == DType::i64) {}
  RINGLET_HOST_DEVICE std::int64_t operator[](std::int64_t at) const {
    return wide ? static_cast<const std::int64_t*>(data)[at]
                : static_cast<const std::int32_t*>(data)[at];
  }
};

}  // namespace ringlet::cuda
