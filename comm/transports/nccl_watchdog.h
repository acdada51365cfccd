// A thread for each communicator that waits for its work on the device, if no other thread does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

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

}  // namespace ringlet::comm
