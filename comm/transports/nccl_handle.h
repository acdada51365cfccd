// Owner of an NCCL communicator.
#pragma once

#include <functional>
#include <future>
#include <string>

#include "ringlet/comm/transports/nccl_functions.h"
#include "ringlet/core/device/device.h"

namespace ringlet::comm {

/// Its destructor aborts the communicator, if it has one that was not destroyed. Abort and destroy
/// run in a separate thread. NCCL joins threads there that may wait for a peer forever, and an
/// abort waits until no graph holds work of the communicator. The program's exit waits for these
/// threads, at most NcclFunctions::patience: CUDA shuts down after it.
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

}  // namespace ringlet::comm
