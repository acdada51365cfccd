// CUPTI, found when something is to be recorded.
#pragma once

#include <cupti.h>

#include <memory>

#include "ringlet/cuda/activity.h"

#define RINGLET_CUPTI_FUNCTIONS(X)     \
  X(cuptiActivityDisable)              \
  X(cuptiActivityEnable)               \
  X(cuptiActivityFlushAll)             \
  X(cuptiActivityGetNextRecord)        \
  X(cuptiActivityGetNumDroppedRecords) \
  X(cuptiActivityRegisterCallbacks)    \
  X(cuptiGetResultString)

namespace ringlet::cuda {

struct Cupti {
#define RINGLET_MEMBER(function) decltype(&::function) function;
  RINGLET_CUPTI_FUNCTIONS(RINGLET_MEMBER)
#undef RINGLET_MEMBER
};

/// Looks where programs look for libraries, then in the toolkit of the build. Error where there is
/// none of the version that this was built with.
const Cupti& cupti();

/// The same as record_activity(device), by these functions.
std::unique_ptr<ActivityRecording> record_activity(Device device, const Cupti& cupti);

}  // namespace ringlet::cuda
