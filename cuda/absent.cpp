// Stubs of a build without the CUDA toolkit, or with one that lacks CUPTI's header.
#include "cuda/build_settings.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/cuda/activity.h"
#include "ringlet/cuda/info.h"

namespace ringlet {

#ifndef RINGLET_HAS_CUDA
// There are no kernels and no backend. Every use of a cuda device ends in the one error of
// core/device/backend.cpp.
void register_cuda() {}

cuda::Info cuda::info() { return {}; }
#endif

// Nothing is recorded.
std::unique_ptr<cuda::ActivityRecording> cuda::record_activity(Device) {
  fail("[cupti] this was built without CUPTI: its header, cupti.h, was not in the CUDA toolkit");
}

}  // namespace ringlet
