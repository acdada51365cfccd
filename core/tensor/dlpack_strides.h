// Strided tensors of other libraries; strides are in elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ringlet/core/tensor/shape.h"

namespace ringlet::dlpack {

/// `strides` is null for row-major.
inline bool is_contiguous(const Shape& shape, const std::int64_t* strides) {
  if (!strides) return true;
  std::int64_t expected = 1;
  for (int i = shape.dim() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

/// Copies elements of `size` bytes on the host, in row-major order; strides may be 0 or negative.
inline void copy_strided(std::byte* out, const std::byte* data, const Shape& shape,
                         const std::int64_t* strides, std::size_t size) {
  std::array<std::int64_t, Shape::kMaxDim> index{};
  const auto step = static_cast<std::int64_t>(size);
  std::int64_t offset = 0;
  for (int i = 0; i >= 0; out += size) {
    std::memcpy(out, data + offset * step, size);
    // Odometer: the last dimension changes fastest.
    for (i = shape.dim() - 1; i >= 0; --i) {
      const auto d = static_cast<std::size_t>(i);
      offset += strides[i];
      if (++index[d] < shape[i]) break;
      offset -= strides[i] * shape[i];
      index[d] = 0;
    }
  }
}

}  // namespace ringlet::dlpack
