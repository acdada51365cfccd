// A rank's communicator. None of NCCL's calls waits: it takes them and says later how they went, so
// whoever waits here looks at the alarm and the clock meanwhile, and another thread may abort.
#pragma once

#include <functional>
#include <mutex>

#include "ringlet/comm/transport.h"
#include "ringlet/comm/transports/nccl_handle.h"

namespace ringlet::comm {

class NcclCommunicator {
 public:
  using Calls = std::function<void(const NcclFunctions&, ncclComm_t, cudaStream_t)>;

  /// Of `device`; all ranks make it together, with what rank 0 says in the store.
  NcclCommunicator(const Membership& membership, Device device);
  /// The device is done with what it was given, or the group has failed. Peers may take part in the
  /// end late, by the group's timeout; what is under way then is aborted.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// What `calls` asks for, as one group of NCCL's on this thread's stream. Returns when the stream
  /// has it.
  void group(const std::string& where, const Calls& calls);
  /// What went wrong on the device, in NCCL's words; empty where nothing did.
  std::string async_error();
  /// Ends its work on the device, soon. Any thread, any number of times.
  void abort() noexcept;

 private:
  // Both say which line made the call that failed.
  void wait_until_taken(const std::string& where, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE());
  [[noreturn]] void end(const std::string& where, ncclResult_t result,
                        const char* file = __builtin_FILE(), int line = __builtin_LINE()) const;
  ncclResult_t outcome(Timeout patience);
  ncclResult_t state();
  ncclComm_t open_handle() const;
  std::string words(ncclResult_t result) const;
  void tell(const std::string& what) const;

  const Membership& membership_;
  Device device_;
  mutable std::mutex mutex_;  // NCCL takes one call of a communicator at a time
  NcclHandle handle_;
};

/// Raises the alarm with "`where`: NCCL on rank 1: `words`", unless it soon says what the matter
/// is: what ended a peer is often heard just after its connection is lost.
void end_by_nccl(const Membership& membership, const std::string& where, const std::string& words);
/// "rank 1 waited 5 s", the group's timeout.
std::string waited(const Membership& membership);

}  // namespace ringlet::comm
