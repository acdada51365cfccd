#include "ringlet/cuda/launch.h"

#include <optional>
#include <unordered_set>

#include "ringlet/cuda/launch_gate.h"

namespace ringlet::cuda {
namespace {

// A driver loads a kernel at its first launch on a device. Another thread's may be in progress, so
// each thread has a first one.
bool is_first_here(Device device, const void* function) {
  thread_local std::unordered_set<std::uintptr_t> launched;
  return device_count() > 1 &&
         launched
             .insert(reinterpret_cast<std::uintptr_t>(function) * kMostDevices +
                     static_cast<std::uintptr_t>(device.index))
             .second;
}

}  // namespace

std::int64_t blocks_at_once(Device device, const void* function, unsigned threads,
                            std::size_t shared_bytes) {
  const DeviceGuard guard(device);
  int multiprocessors = 0, each = 0;
  RINGLET_CUDA(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device.index));
  RINGLET_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &each, function, static_cast<int>(threads), shared_bytes));
  return std::int64_t{multiprocessors} * each;
}

void launch_kernel(const LaunchSite& site, Device device, const void* function, dim3 grid,
                   dim3 block, std::size_t shared_bytes, void** arguments, Blocks blocks) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const DeviceGuard guard(device);
  const cudaStream_t stream = current_stream(device);
  std::optional<LaunchGate::Call> loads;
  if (is_first_here(device, function)) loads.emplace();
  cudaError_t status = cudaSuccess;
  if (shared_bytes > kSharedWithoutAsking)
    status = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes));
  if (status == cudaSuccess && blocks == Blocks::all_at_once) {
    const std::int64_t room =
        blocks_at_once(device, function, block.x * block.y * block.z, shared_bytes);
    const std::int64_t asked = std::int64_t{grid.x} * grid.y * grid.z;
    RINGLET_CHECK(asked <= room, "[", site.name, "] ", asked,
                  " blocks that wait for each other: ", device, " runs ", room, " at once");
    status = cudaLaunchCooperativeKernel(function, grid, block, arguments, shared_bytes, stream);
  } else if (status == cudaSuccess) {
    status = cudaLaunchKernel(function, grid, block, arguments, shared_bytes, stream);
  }
  if (status == cudaSuccess) return;
  const std::string what =
      str(site.name, "<<<(", grid.x, ", ", grid.y, ", ", grid.z, "), (", block.x, ", ", block.y,
          ", ", block.z, "), ", shared_bytes, ">>> on ", device);
  fail_cuda(status, what.c_str(), site.file, site.line);
}

}  // namespace ringlet::cuda
