// A rank's entry to and exit from a collective of tensors on its GPU. The transport nccl and NCCL's
// own collectives share it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ringlet/comm/engine.h"
#include "ringlet/comm/membership.h"
#include "ringlet/comm/transports/nccl_communicator.h"
#include "ringlet/comm/transports/store_progress.h"
#include "ringlet/core/device/stream.h"

namespace ringlet::comm {

/// Ends the group when its work on the device fails or times out. Aborts the work on the device
/// when the group has ended.
class NcclWatchdog {
 public:
  NcclWatchdog(const Membership& membership, NcclCommunicator& communicator);
  /// Waits for the enqueued work, then records that this rank has left the group.
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  /// To be called when all of a collective is enqueued. Its time begins when the device reaches
  /// `begun` and the earlier collectives are complete: a wait on this rank is no peer's fault.
  /// A replay of a graph has `replayed` collectives, of which `call` is the first. The time is that
  /// of the whole graph, computation included.
  void watch(const Call& call, std::shared_ptr<const StreamEvent> begun,
             std::shared_ptr<const StreamEvent> ended, int replayed = 0);

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    Call call;
    std::shared_ptr<const StreamEvent> begun, ended;
    std::uint64_t replay = 0;  // 1-based index of the replayed graph; 0 outside a replay
    int count = 0;             // of collectives in the graph
    std::optional<Clock::time_point> since = {};
  };

  void run();
  void look();
  static std::string describe(const Watched& watched);
  std::string presence(const Watched& watched) const;
  void exchange_progress(const Watched* oldest) noexcept;
  void check_departures(const Watched& watched) const;
  void record_left() noexcept;
  std::optional<Watched> oldest();
  Watched last_given();

  const Membership& membership_;
  NcclCommunicator& communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  Watched last_;
  // Ranks do not compare their calls before a replay: each publishes its number of replays here.
  StoreProgress replays_;
  std::uint64_t replayed_ = 0;
  Clock::time_point exchange_at_;
  std::deque<Watched> watched_;
  std::thread thread_;
};

/// A rank's GPU, identified as NCCL does. NCCL accepts one rank per GPU of a host; its own error
/// for two names neither the reason nor the remedy.
struct GpuPlace {
  std::string bus_id;  // empty: not known, or two ranks of it are no matter
  std::string device;  // what the rank calls it: "cuda:0"
  std::string host;    // its name, for people
  std::string host_id;
};

/// The GPU of this process. Different values of NCCL_HOSTID are different hosts.
/// NCCL_MULTI_RANK_GPU_ENABLE (NCCL 2.30) lets ranks share a GPU.
GpuPlace gpu_place(Device device);
/// Which two ranks have the same GPU, and what to do; empty where each has its own. `names` are
/// those of the ranks, unless empty.
std::string shared_gpu(const std::vector<GpuPlace>& ranks, const std::vector<int>& names = {});
/// All ranks of the group call it; InputError on each where two share a GPU.
void check_gpus(const Membership& membership, const GpuPlace& mine);

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
