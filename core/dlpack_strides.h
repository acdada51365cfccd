// Strided tensors of other libraries.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "ringlet/core/dlpack.h"

namespace ringlet::dlpack {

inline bool is_contiguous(const DLTensor& tensor) {
  if (!tensor.strides) return true;
  std::int64_t expected = 1;
  for (std::int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

/// Copies a strided tensor on the host; strides may be 0 or negative.
inline void copy_strided(std::byte* out, const DLTensor& tensor, std::size_t size) {
  const auto* data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  std::array<std::int64_t, Shape::kMaxDim> index{};
  const auto step = static_cast<std::int64_t>(size);
  std::int64_t offset = 0;
  for (std::int32_t i = 0; i >= 0; out += size) {
    std::memcpy(out, data + offset * step, size);
    // Odometer: the last dimension changes fastest.
    for (i = tensor.ndim - 1; i >= 0; --i) {
      const auto d = static_cast<std::size_t>(i);
      offset += tensor.strides[i];
      if (++index[d] < tensor.shape[i]) break;
      offset -= tensor.strides[i] * tensor.shape[i];
      index[d] = 0;
    }
  }
}

}  // namespace ringlet::dlpack
