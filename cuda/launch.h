// Kernel launches: checked, on the thread's stream of the device, none for an empty grid.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/kernel_families.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/pack.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {

// The families of kernels: each is defined in the file of its name.
RINGLET_KERNEL_FAMILIES(RINGLET_DECLARE_FAMILY)
/// Fills the kernel tables.
void register_kernels();

/// A kernel's name, with the file and the line of the caller. By builtins, because clang 14 has no
/// std::source_location.
struct LaunchSite {
  // Not explicit, so that a caller passes just a name.
  LaunchSite(const char* kernel, const char* in_file = __builtin_FILE(),
             int at_line = __builtin_LINE())
      : name(kernel), file(in_file), line(at_line) {}

  const char* name;
  const char* file;
  int line;
};

inline constexpr int kWarp = 32;
/// The default number of threads of a block.
inline constexpr int kThreads = 256;
/// The most blocks of a grid-stride loop; fixed, so that results do not depend on the device.
inline constexpr std::int64_t kMostBlocks = 4096;
/// Dynamic shared memory that a kernel has without cudaFuncSetAttribute.
inline constexpr std::size_t kSharedWithoutAsking = 48 << 10;

/// Blocks for n elements, `per_block` to each; 0 for n = 0. At most kMostBlocks: kernels loop over
/// the rest (grid_stride).
inline unsigned grid_for(std::int64_t n, std::int64_t per_block = kThreads) {
  const std::int64_t blocks = n / per_block + (n % per_block != 0);
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

/// The number of leading elements, of n, that are moved in whole packs of kPack<T>: 0 unless all
/// pointers are aligned.
template <class T, class... Pointers>
std::int64_t in_packs(std::int64_t n, const Pointers*... pointers) {
  return aligned16(pointers...) ? n - n % kPack<T> : 0;
}

/// Blocks for `packed` elements in packs; for all n single elements if `packed` is 0.
template <class T>
unsigned grid_of_packs(std::int64_t n, std::int64_t packed) {
  return grid_for(packed > 0 ? packed / kPack<T> : n);
}

#if defined(__CUDACC__)
/// body(i) for every i of [0, n), divided over all threads of a one-dimensional grid.
template <class Body>
__device__ __forceinline__ void grid_stride(std::int64_t n, Body&& body) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    body(i);
}
#endif

/// Whether all blocks of a launch run concurrently, so that they may wait for each other.
enum class Blocks { as_room_allows, all_at_once };

/// The launch without types: `arguments` point to the kernel's parameters.
void launch_kernel(const LaunchSite& site, Device device, const void* function, dim3 grid,
                   dim3 block, std::size_t shared_bytes, void** arguments,
                   Blocks blocks = Blocks::as_room_allows);

/// The most blocks of a kernel that run concurrently if nothing else uses the device.
std::int64_t blocks_at_once(Device device, const void* function, unsigned threads,
                            std::size_t shared_bytes);

/// function<<<grid, block, shared_bytes>>>(arguments...), converted to its parameters; no launch
/// for an empty grid. An error names the kernel, the launch and the line that launched it.
template <Blocks blocks = Blocks::as_room_allows, class... Parameters, class... Arguments>
void launch(LaunchSite site, Device device, void (*function)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, const Arguments&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  const auto with = [&](Parameters... parameters) {
    void* pointers[] = {static_cast<void*>(&parameters)..., nullptr};
    launch_kernel(site, device, reinterpret_cast<const void*>(function), grid, block, shared_bytes,
                  pointers, blocks);
  };
  with(arguments...);
}

}  // namespace ringlet::cuda
