// What owns a communicator of NCCL's.
#pragma once

#include <functional>
#include <future>
#include <string>

#include "ringlet/comm/transports/nccl_functions.h"
#include "ringlet/core/device.h"

namespace ringlet::comm {

/// Aborts its communicator, if it has one, unless it was destroyed before. Either is done in a
/// thread of its own: NCCL joins threads there that may wait for a peer for ever, and an abort
/// waits until no graph has work of the communicator's.
class NcclHandle {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// Of a communicator on `device`. `tell` is given "ncclCommAbort has not come back in 10 s: left
  /// behind" by the destructor.
  NcclHandle(Device device, Tell tell) : device_(device), tell_(std::move(tell)) {}
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// What NCCL made, or null.
  void own(ncclComm_t handle) { handle_ = handle; }
  ncclComm_t get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }
  /// Ends its work on the device, soon; the first call alone does. It is gone for this process.
  void abort() noexcept {
    if (handle_) end("ncclCommAbort", nccl().ncclCommAbort);
  }
  /// The same of one whose work is done, as ncclCommFinalize says.
  void destroy() noexcept {
    if (handle_) end("ncclCommDestroy", nccl().ncclCommDestroy);
  }

 private:
  void end(const char* name, ncclResult_t (*call)(ncclComm_t)) noexcept;

  Device device_;
  Tell tell_;
  ncclComm_t handle_ = nullptr;
  const char* ending_ = nullptr;  // the call that ends it
  std::future<void> ended_;
};

}  // namespace ringlet::comm
