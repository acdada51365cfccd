// 16 bytes of elements: what a thread moves at once where places allow it.
#pragma once

#include <cstdint>

#include "ringlet/core/host_device.h"

namespace ringlet::cuda {

/// Elements in 16 bytes.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

/// Whether 16 bytes can be read or written at once at all of these.
template <class... Pointers>
RINGLET_HOST_DEVICE bool aligned16(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace ringlet::cuda
