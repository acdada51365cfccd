// Products by cuBLASLt: one Product per shape, layout, dtypes, epilogue, precision and alignment,
// with the algorithm that runs it.
#pragma once

#include "ringlet/cuda/matmul_plan.h"

namespace ringlet::cuda {

/// Enqueues the product on the thread's stream of the device. If the library has no algorithm for
/// it: false and no work if it has an epilogue, else Error.
bool run_product(const MatmulPlan& plan, const ProductPointers& at, Device device);

}  // namespace ringlet::cuda
