// The stub built without CUPTI's header: nothing is recorded.
#include "ringlet/core/base/error.h"
#include "ringlet/cuda/activity.h"

namespace ringlet::cuda {

std::unique_ptr<ActivityRecording> record_activity(Device) {
  fail("[cupti] this was built without CUPTI: its header, cupti.h, was not in the CUDA toolkit");
}

}  // namespace ringlet::cuda
