// A thread beside each communicator, which waits for the device where nobody else does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "ringlet/comm/transports/nccl_communicator.h"
#include "ringlet/comm/transports/store_places.h"
#include "ringlet/core/stream.h"

namespace ringlet::comm {

/// Ends the group when its work on the device fails or goes on too long, and the work on the device
/// when the group has ended.
class NcclWatchdog {
 public:
  NcclWatchdog(const Membership& membership, NcclCommunicator& communicator);
  /// Waits for what the device has been given, then records that this rank has left the group.
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  /// The device has been given all of a collective. Its time begins when the device comes to
  /// `begun` and those before it are done: what it waits for on this rank is no peer's fault.
  void watch(const Call& call, std::shared_ptr<const Event> begun,
             std::shared_ptr<const Event> ended);
  /// The same of a graph with `count` collectives, of which `first` is the first. Its time is that
  /// of all of it, what it computes included.
  void watch_replay(const Call& first, int count, std::shared_ptr<const Event> begun,
                    std::shared_ptr<const Event> ended);

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    Call call;
    std::shared_ptr<const Event> begun, ended;
    std::uint64_t replay = 0;  // the how manieth of the group's graphs; 0: none
    int count = 1;             // of collectives
    std::optional<Clock::time_point> since = {};
  };

  void run();
  void look();
  static std::string describe(const Watched& watched);
  std::string presence(const Watched& watched) const;
  void exchange_places(const Watched* oldest) noexcept;
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
  // Ranks come to replays without comparing their calls: each says here how many it has given.
  StorePlaces replays_;
  std::uint64_t replayed_ = 0;
  Clock::time_point exchange_at_;
  std::deque<Watched> watched_;
  std::thread thread_;
};

}  // namespace ringlet::comm
