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
inline constexpr int kRegistersOfBlock = 65536;  // and of a multiprocessor
inline constexpr int kSchedulers = 4;            // of a multiprocessor, each with its registers
inline constexpr int kRegistersAtOnce = 256;     // a warp's share is a multiple of it
inline constexpr std::uint32_t kGridOfOthers = 65535, kBlockOfZ = 64;

/// The warps of a multiprocessor that registers allow.
inline int warps_by_registers(const Kernel& kernel) {
  if (kernel.registers == 0) return kThreadsOfMultiprocessor / kLanes;
  const int of_warp = (kernel.registers * kLanes + kRegistersAtOnce - 1) / kRegistersAtOnce;
  return kRegistersOfBlock / kSchedulers / (of_warp * kRegistersAtOnce) * kSchedulers;
}

/// Whether a block has registers for all of its threads.
inline bool has_registers(const Kernel& kernel, std::size_t threads) {
  const std::size_t warps = (threads + kLanes - 1) / kLanes;
  const std::size_t scheduled = (warps + kSchedulers - 1) / kSchedulers * kSchedulers;
  return scheduled <= static_cast<std::size_t>(warps_by_registers(kernel));
}

/// Resident blocks per multiprocessor (CUDA C++ Programming Guide, technical specifications of
/// compute capability 9.0). Registers are ignored where they are not known.
inline int blocks_of_multiprocessor(const Kernel& kernel, std::size_t threads,
                                    std::size_t dynamic_bytes) {
  if (threads == 0 || threads > kernel.most_threads) return 0;
  const std::size_t warps = (threads + kLanes - 1) / kLanes;
  const std::size_t scheduled = (warps + kSchedulers - 1) / kSchedulers * kSchedulers;
  const std::size_t shared = kernel.shared_bytes + dynamic_bytes;
  if (shared > kSharedOfBlock) return 0;
  return static_cast<int>(
      std::min({std::size_t{kBlocksOfMultiprocessor},
                std::size_t{kThreadsOfMultiprocessor} / (warps * kLanes),
                static_cast<std::size_t>(warps_by_registers(kernel)) / scheduled,
                std::size_t{kSharedOfMultiprocessor} / (shared + kSharedReserved)}));
}

}  // namespace ringlet::emulated
