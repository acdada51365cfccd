// CUDA information for `ringlet info` and benches; the same functions exist in a build without
// CUDA.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ringlet/core/device/device.h"

namespace ringlet::cuda {

struct Gpu {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::vector<bool> peers;  // per device: whether this one can access its memory directly
};

struct Info {
  std::string toolkit;        // of the build; empty: without CUDA
  std::string architectures;  // of the compiled kernels: "90a"
  std::string driver;         // "13.0", the newest CUDA version it supports; empty: no driver
  std::string release;        // of the driver, "580.95.05"; empty: not reported by Linux
  std::string cublas;         // of the library found here; empty: not searched, or none
  std::string nccl;
  std::vector<Gpu> gpus;
};

/// Libraries are searched for only if there is a GPU.
Info info();

}  // namespace ringlet::cuda
