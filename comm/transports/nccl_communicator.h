// A rank's non-blocking communicator: NCCL's calls return immediately and their results are polled.
// A thread that waits here also checks the alarm and the clock, and another thread may abort.
#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <string>

#include "ringlet/comm/membership.h"
#include "ringlet/core/device/device.h"

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

/// Owner of an NCCL communicator. Its destructor aborts the communicator, if it has one that was
/// not destroyed. Abort and destroy run in a separate thread. NCCL joins threads there that may
/// wait for a peer forever, and an abort waits until no graph holds work of the communicator. The
/// program's exit waits for these threads, at most NcclFunctions::patience: CUDA shuts down after
/// it.
class NcclHandle {
 public:
  using Report = std::function<void(const std::string&)>;

  /// For a communicator on `device`. The destructor may call `report` with "ncclCommAbort has not
  /// come back in 10 s: left behind".
  NcclHandle(Device device, Report report) : device_(device), report_(std::move(report)) {}
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// Takes a communicator that NCCL made, or null.
  void own(ncclComm_t handle) { handle_ = handle; }
  ncclComm_t get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }
  /// Ends its work on the device soon; later calls do nothing. The communicator is then unusable.
  void abort() noexcept {
    if (handle_) end("ncclCommAbort", nccl().ncclCommAbort);
  }
  /// The same for a communicator that ncclCommFinalize has completed.
  void destroy() noexcept {
    if (handle_) end("ncclCommDestroy", nccl().ncclCommDestroy);
  }

 private:
  void end(const char* name, ncclResult_t (*call)(ncclComm_t)) noexcept;

  Device device_;
  Report report_;
  ncclComm_t handle_ = nullptr;
  const char* ending_ = nullptr;  // the call that ends it
  std::shared_future<void> ended_;
};

class NcclCommunicator {
 public:
  using Calls = std::function<void(const NcclFunctions&, ncclComm_t, cudaStream_t)>;

  /// On `device`. All ranks create it together, with the id that rank 0 puts in the store.
  NcclCommunicator(const Membership& membership, Device device);
  /// The device must have completed its work, or the group have failed. Waits for the peers up to
  /// the group's timeout; work in flight is aborted then.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Makes `calls` as one NCCL group on this thread's stream. Returns when the group is enqueued.
  void group(const std::string& where, const Calls& calls);
  /// NCCL's message for an error on the device; empty if there is none.
  std::string async_error();
  /// Ends its work on the device, soon. Any thread, any number of times.
  void abort() noexcept;

 private:
  // Both report the line of the call that failed.
  void wait_until_taken(const std::string& where, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE());
  [[noreturn]] void end(const std::string& where, ncclResult_t result,
                        const char* file = __builtin_FILE(), int line = __builtin_LINE()) const;
  ncclResult_t outcome(Timeout patience);
  ncclResult_t state();
  ncclComm_t open_handle() const;
  std::string words(ncclResult_t result) const;
  void report(const std::string& what) const;

  const Membership& membership_;
  Device device_;
  mutable std::mutex mutex_;  // NCCL takes one call of a communicator at a time
  NcclHandle handle_;
};

/// Membership::end_late with "`where`: NCCL on rank 1: `words`".
[[noreturn]] void end_by_nccl(const Membership& membership, const std::string& where,
                              const std::string& words);

}  // namespace ringlet::comm
