// 16 bytes of elements: the size of a thread's vector access.
#pragma once

#include <cstdint>

#include "ringlet/core/base/host_device.h"

namespace ringlet::cuda {

/// Elements in 16 bytes.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

/// Whether all of these addresses allow 16-byte accesses.
template <class... Pointers>
RINGLET_HOST_DEVICE bool aligned16(const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace ringlet::cuda
