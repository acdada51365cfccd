// A rank's entry to and exit from a collective of tensors on its GPU. The transport nccl and NCCL's
// own collectives share it.
#pragma once

#include <optional>

#include "ringlet/comm/engine.h"
#include "ringlet/comm/transports/nccl_communicator.h"
#include "ringlet/comm/transports/nccl_watchdog.h"
#include "ringlet/core/device/stream.h"

namespace ringlet::comm {

class NcclReplays;

class NcclRank {
 public:
  /// Over `host` the ranks compare their calls: NCCL would wait for ever where they differ.
  NcclRank(const Membership& membership, Transport& host);
  int rank() const { return membership_.rank; }
  int size() const { return membership_.size; }

  bool has_communicator() const { return communicator_.has_value(); }
  /// Returns when all ranks have come to the same call. The first makes the communicator.
  void enter(const Call& call, Device device);
  void group(const NcclCommunicator::Calls& calls);
  /// The device has been given the collective, up to what this thread's stream has now.
  void leave();

 private:
  void barrier();
  void note_captured();

  Membership membership_;
  std::unique_ptr<Engine> host_;
  Collective barrier_;
  Call call_;
  Device device_;
  std::shared_ptr<StreamEvent> begun_;  // null in a capture
  std::optional<NcclCommunicator> communicator_;
  std::optional<NcclWatchdog> watchdog_;
  std::shared_ptr<NcclReplays> captured_;  // of the graph that is captured
};

std::unique_ptr<Engine> make_nccl_engine(NcclRank& rank);

}  // namespace ringlet::comm
