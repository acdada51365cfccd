#include "ringlet/cuda/sorted_runs.h"

#include <cub/device/device_radix_sort.cuh>

#include "ringlet/core/base/error.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/launch_gate.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {

void sort_pairs(Device device, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                const std::int32_t* values, std::int32_t* sorted_values, std::int64_t n, int bits) {
  if (n == 0) return;
  RINGLET_CHECK(n <= INT32_MAX, "[cuda] cannot sort ", n, " pairs");
  const DeviceGuard guard(device);
  const cudaStream_t stream = current_stream(device);
  const auto run = [&](void* memory, std::size_t& nbytes) {
    const LaunchGate::Call call;  // may load kernels
    RINGLET_CUDA(cub::DeviceRadixSort::SortPairs(memory, nbytes, keys, sorted_keys, values,
                                                 sorted_values, static_cast<int>(n), 0, bits,
                                                 stream));
  };
  std::size_t nbytes = 0;
  run(nullptr, nbytes);
  // A null pointer would request the size again.
  const Workspace memory(device, nbytes > 0 ? nbytes : 1);
  run(memory.data(), nbytes);
}

}  // namespace ringlet::cuda
