// Products by cuBLASLt: one Product per shape, layout, dtypes, epilogue, precision and alignment,
// with the algorithm that runs it.
#pragma once

#include <cuda_runtime_api.h>

#include "ringlet/cuda/matmul_plan.h"

namespace ringlet::cuda {

/// Where a product's matrices are on the device.
struct ProductPointers {
  const void* left;
  const void* right;
  const void* bias;  // of plan.adds_bias, in plan.product; else null
  void* sums;        // of plan.makes_sums, f32, overwritten; else null
  void* out;
};

/// Gives the product to the thread's stream of the device. False, and nothing is done, where the
/// library has no algorithm for it; that is an Error unless it has an epilogue.
bool run_product(const MatmulPlan& plan, const ProductPointers& at, Device device);

}  // namespace ringlet::cuda
