// The stub built without the CUDA toolkit: no kernels and no backend. Every use of a cuda device
// ends in the one error of core/device/backend.cpp.
#include "ringlet/core/device/backend.h"
#include "ringlet/cuda/info.h"

namespace ringlet {

void register_cuda() {}

cuda::Info cuda::info() { return {}; }

}  // namespace ringlet
