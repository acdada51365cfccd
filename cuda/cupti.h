// CUPTI, loaded by the first recording.
#pragma once

#include <cupti.h>

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

/// Searches the default library path, then the toolkit of the build. Error if no library of the
/// build's version is found.
const Cupti& cupti();

}  // namespace ringlet::cuda
