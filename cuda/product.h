// Products by cuBLASLt: one Product per shape, layout, dtypes, epilogue, precision and alignment,
// with the algorithm that runs it.
#pragma once

#include <cuda_runtime_api.h>

#include "ringlet/cuda/matmul_plan.h"

namespace ringlet::cuda {

/// The device addresses of a product's matrices.
struct ProductPointers {
  const void* left;
  const void* right;
  const void* bias;  // if plan.adds_bias, in plan.product; else null
  void* sums;        // if plan.makes_sums, f32, overwritten; else null
  void* out;
};

/// Enqueues the product on the thread's stream of the device. If the library has no algorithm for
/// it: false and no work if it has an epilogue, else Error.
bool run_product(const MatmulPlan& plan, const ProductPointers& at, Device device);

}  // namespace ringlet::cuda
