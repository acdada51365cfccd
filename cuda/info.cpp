#include "ringlet/cuda/info.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "ringlet/core/error.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/cublas_lt.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {
namespace {

std::string driver_version() {
  int version = 0;  // 0 without a driver
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return "";
  return str(version / 1000, '.', version % 1000 / 10);
}

// "10000 x major + 100 x minor + patch", as cuBLAS and NCCL count.
std::string dotted(std::size_t version) {
  return str(version / 10000, '.', version / 100 % 100, '.', version % 100);
}

std::string cublas_version() {
  try {
    return dotted(cublas_lt().cublasLtGetVersion());
  } catch (const Error&) {
    return "";
  }
}

std::string nccl_version() {
  void* const library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (!library) return "";
  using GetVersion = int (*)(int*);
  const auto get = reinterpret_cast<GetVersion>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  const bool known = get && get(&version) == 0;
  dlclose(library);
  return known ? dotted(static_cast<std::size_t>(version)) : "";
}

Gpu gpu(int index, int count) {
  cudaDeviceProp properties{};
  RINGLET_CUDA(cudaGetDeviceProperties(&properties, index));
  Gpu found{properties.name,           properties.major,
            properties.minor,          properties.multiProcessorCount,
            properties.totalGlobalMem, {}};
  for (int peer = 0; peer < count; ++peer) {
    int can = 0;
    if (peer != index) RINGLET_CUDA(cudaDeviceCanAccessPeer(&can, index, peer));
    found.peers.push_back(can != 0);
  }
  return found;
}

}  // namespace

Info info() {
  Info all{RINGLET_CUDA_TOOLKIT, RINGLET_CUDA_ARCH, driver_version(), "", "", {}};
  const int count = device_count();
  for (int i = 0; i < count; ++i) all.gpus.push_back(gpu(i, count));
  if (count == 0) return all;
  all.cublas = cublas_version();
  all.nccl = nccl_version();
  return all;
}

}  // namespace ringlet::cuda
