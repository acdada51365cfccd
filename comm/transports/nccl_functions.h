// NCCL's functions, found when the first collective of tensors on GPUs needs them.
#pragma once

#include <nccl.h>

#include <chrono>

#define RINGLET_NCCL_FUNCTIONS(X) \
  X(ncclAllGather)                \
  X(ncclAllReduce)                \
  X(ncclBroadcast)                \
  X(ncclCommAbort)                \
  X(ncclCommDestroy)              \
  X(ncclCommFinalize)             \
  X(ncclCommGetAsyncError)        \
  X(ncclCommInitRankConfig)       \
  X(ncclGetErrorString)           \
  X(ncclGetLastError)             \
  X(ncclGetUniqueId)              \
  X(ncclGroupEnd)                 \
  X(ncclGroupStart)               \
  X(ncclRecv)                     \
  X(ncclReduceScatter)            \
  X(ncclSend)

namespace ringlet::comm {

struct NcclFunctions {
#define RINGLET_MEMBER(function) decltype(&::function) function;
  RINGLET_NCCL_FUNCTIONS(RINGLET_MEMBER)
#undef RINGLET_MEMBER
  /// How long one that ends a communicator is waited for; NCCL itself sets no limit.
  std::chrono::milliseconds patience{10'000};
};

/// Error where there is no library, or one that is too old.
const NcclFunctions& nccl();
/// Puts others in their place, while no group is there; null: NCCL's own again.
void set_nccl(const NcclFunctions* functions);

}  // namespace ringlet::comm
