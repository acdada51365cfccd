// NCCL's functions, found when the first collective of tensors on GPUs needs them, and what owns a
// communicator of it.
#pragma once

#include <nccl.h>

#include <utility>

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
};

/// Error where there is no library, or one that is too old.
const NcclFunctions& nccl();
/// Puts others in their place, while no group is there; null: NCCL's own again.
void set_nccl(const NcclFunctions* functions);

/// Owns a communicator, which it aborts unless it was destroyed before.
class NcclHandle {
 public:
  NcclHandle() = default;
  explicit NcclHandle(ncclComm_t handle) : handle_(handle) {}
  ~NcclHandle() { abort(); }
  NcclHandle(NcclHandle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  NcclHandle& operator=(NcclHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  ncclComm_t get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }
  /// Ends its work on the device; the first call alone does.
  void abort() noexcept {
    if (const ncclComm_t handle = std::exchange(handle_, nullptr)) nccl().ncclCommAbort(handle);
  }
  /// Its work is done, as ncclCommFinalize says.
  void destroy() noexcept {
    if (const ncclComm_t handle = std::exchange(handle_, nullptr)) nccl().ncclCommDestroy(handle);
  }

 private:
  ncclComm_t handle_ = nullptr;
};

}  // namespace ringlet::comm
