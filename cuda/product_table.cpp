#include "ringlet/cuda/product_algorithm.h"

#include <cuda_runtime_api.h>

#include <array>
#include <mutex>
#include <vector>

#include "ringlet/cuda/check.h"
#include "ringlet/cuda/cublas_lt.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {
namespace {

const std::vector<TunedProduct> kRows{
#include "ringlet/cuda/product_table.inc"
};

TunedAlgorithms read_table(Device device) {
  cudaDeviceProp properties{};
  RINGLET_CUDA(cudaGetDeviceProperties(&properties, device.index));
  return tuned_for(kRows, properties.name, cublas_lt().cublasLtGetVersion());
}

}  // namespace

TunedAlgorithms tuned_for(std::span<const TunedProduct> rows, std::string_view gpu,
                          std::size_t cublas) {
  TunedAlgorithms found;
  for (const TunedProduct& row : rows)
    if (row.gpu == gpu && row.cublas == cublas) found.emplace(row.product, row.algorithm);
  return found;
}

const TunedAlgorithms& tuned_algorithms(Device device) {
  // Never destroyed: threads may multiply until the process ends.
  static auto* const tables = new std::array<TunedAlgorithms, kMostDevices>;
  static auto* const read = new std::array<std::once_flag, kMostDevices>;
  const auto i = static_cast<std::size_t>(device.index);
  std::call_once((*read)[i], [&] { (*tables)[i] = read_table(device); });
  return (*tables)[i];
}

}  // namespace ringlet::cuda
