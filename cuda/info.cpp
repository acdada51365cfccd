#include "ringlet/cuda/info.h"

#include <cuda_runtime_api.h>

#include <fstream>

#include "cuda/build_settings.h"
#include "ringlet/core/base/error.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/cublas_lt.h"
#include "ringlet/cuda/driver_release.h"
#include "ringlet/cuda/shared_library.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {
namespace {

std::string driver_version() {
  int version = 0;  // 0 without a driver
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return "";
  return str(version / 1000, '.', version % 1000 / 10);
}

std::string driver_release() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  return release_in(line);
}

template <class Version>
std::string if_there(const Version& version) {
  try {
    return version();
  } catch (const Error&) {
    return "";
  }
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
  Info all{RINGLET_CUDA_TOOLKIT, RINGLET_CUDA_ARCH, driver_version(), driver_release(), "", "", {}};
  const int count = device_count();
  for (int i = 0; i < count; ++i) all.gpus.push_back(gpu(i, count));
  if (count == 0) return all;
  all.cublas = if_there([] { return dotted(cublas_lt().cublasLtGetVersion()); });
  all.nccl = if_there([] { return dotted(open_nccl().version); });
  return all;
}

}  // namespace ringlet::cuda
