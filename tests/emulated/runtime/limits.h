// Limits of an emulated GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../ptx/program.h"

namespace ringlet::emulated {

inline constexpr int kMultiprocessors = 8;
inline constexpr std::size_t kDeviceBytes = std::size_t{8} << 30;
inline constexpr int kSharedByDefault = 48 << 10, kSharedOfBlock = 227 << 10;
inline constexpr int kSharedOfMultiprocessor = 228 << 10, kSharedReserved = 1 << 10;
inline constexpr int kThreadsOfBlock = 1024, kThreadsOfMultiprocessor = 2048;
inline constexpr int kBlocksOfMultiprocessor = 32;
inline constexpr std::uint32_t kGridOfOthers = 65535, kBlockOfZ = 64;

/// Resident blocks per multiprocessor. Registers are ignored: PTX does not state their number.
inline int blocks_of_multiprocessor(const Kernel& kernel, std::size_t threads,
                                    std::size_t dynamic_bytes) {
  if (threads == 0 || threads > kernel.most_threads) return 0;
  const std::size_t warps = (threads + kLanes - 1) / kLanes;
  const std::size_t shared = kernel.shared_bytes + dynamic_bytes;
  if (shared > kSharedOfBlock) return 0;
  return static_cast<int>(
      std::min({std::size_t{kBlocksOfMultiprocessor},
                std::size_t{kThreadsOfMultiprocessor} / (warps * kLanes),
                std::size_t{kSharedOfMultiprocessor} / (shared + kSharedReserved)}));
}

}  // namespace ringlet::emulated
