#include "ringlet/cuda/register.h"

#define RINGLET_CALL_CUDA_FAMILY(family) register_##family();

namespace ringlet::cuda {

void register_kernels() { RINGLET_CUDA_FAMILIES(RINGLET_CALL_CUDA_FAMILY) }

}  // namespace ringlet::cuda
