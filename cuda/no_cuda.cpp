// The stub built without the CUDA toolkit: no kernels and no backend. Every use of a cuda device
// ends in the one error of core/backend.cpp.
#include "ringlet/core/backend.h"
#include "ringlet/cuda/info.h"

namespace ringlet {

void register_cuda() {}

cuda::Info cuda::info() { return {}; }

}  // namespace ringlet
