// What `ringlet info` and benches tell of CUDA; the same functions exist in a build without it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ringlet/core/device.h"
#include "ringlet/cuda/product_choice.h"

namespace ringlet::cuda {

struct Gpu {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::vector<bool> peers;  // of each device: whether this one reads its memory directly
};

struct Info {
  std::string toolkit;        // that this was built with; empty: without CUDA
  std::string architectures;  // that there is code for: "90a"
  std::string driver;         // "13.0", the newest CUDA that it runs; empty: no driver
  std::string release;        // of the driver, "580.95.05"; empty: Linux does not say
  std::string cublas;         // of the library found here; empty: not looked for, or none
  std::string nccl;
  std::vector<Gpu> gpus;
};

/// What timing the algorithms of products has found on a device so far.
ProductTimings product_timings(Device device);

/// Libraries are looked for where there is a GPU to use them.
Info info();

}  // namespace ringlet::cuda
