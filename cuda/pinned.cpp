#include "ringlet/cuda/pinned.h"

#include "ringlet/core/base/error.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {

std::byte* allocate_pinned(Device device, std::size_t nbytes) {
  const DeviceGuard guard(device);
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, nbytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // otherwise the next check would report it again
    fail("[allocate] ", nbytes, " bytes of pinned host memory for ", device,
         ": out of memory; the host is full, or a limit is on what may be locked (ulimit -l)");
  }
  RINGLET_CUDA(status);
  return static_cast<std::byte*>(data);
}

}  // namespace ringlet::cuda
