#include "ringlet/cuda/launch.h"

namespace ringlet::cuda {

void launch_kernel(const char* name, Device device, const void* function, dim3 grid, dim3 block,
                   std::size_t shared_bytes, void** arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const DeviceGuard guard(device);
  cudaError_t status = cudaSuccess;
  if (shared_bytes > kSharedWithoutAsking)
    status = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes));
  if (status == cudaSuccess)
    status =
        cudaLaunchKernel(function, grid, block, arguments, shared_bytes, current_stream(device));
  if (status == cudaSuccess) return;
  const std::string what =
      str(name, "<<<(", grid.x, ", ", grid.y, ", ", grid.z, "), (", block.x, ", ", block.y, ", ",
          block.z, "), ", shared_bytes, ">>> on ", device);
  fail_cuda(status, what.c_str(), __FILE__, __LINE__);
}

}  // namespace ringlet::cuda
