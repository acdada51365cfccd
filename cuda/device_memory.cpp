#include "ringlet/cuda/device_memory.h"

#include <cstdlib>

#include "ringlet/core/base/error.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/graph.h"

namespace ringlet::cuda {

std::byte* DeviceSegments::take(std::size_t nbytes) {
  const DeviceGuard guard(device_);
  const BesideCapture beside;
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, nbytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  RINGLET_CUDA(status);
  return static_cast<std::byte*>(data);
}

void DeviceSegments::give_back(std::byte* segment) {
  const DeviceGuard guard(device_);
  RINGLET_CUDA(cudaFree(segment));  // synchronises with the device
}

std::string DeviceSegments::situation() const {
  const DeviceGuard guard(device_);
  const BesideCapture beside;
  std::size_t free = 0, total = 0;
  RINGLET_CUDA(cudaMemGetInfo(&free, &total));
  return str("the device has ", free, " free of ", total);
}

bool blocks_are_exact() { return std::getenv("RINGLET_CUDA_EXACT") != nullptr; }

}  // namespace ringlet::cuda
