// A rank's non-blocking communicator: NCCL's calls return immediately and their results are polled.
// A thread that waits here also checks the alarm and the clock, and another thread may abort.
#pragma once

#include <functional>
#include <mutex>

#include "ringlet/comm/membership.h"
#include "ringlet/comm/transports/nccl_handle.h"

namespace ringlet::comm {

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
