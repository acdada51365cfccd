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
#include "ringlet/core/stream.h"

namespace ringlet::comm {

/// Ends the group when its work on the device fails or goes on too long, and the work on the device
/// when the group has ended.
class NcclWatchdog {
 public:
  NcclWatchdog(const Membership& membership, NcclCommunicator& communicator);
  /// Waits for what the device has been given.
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  /// The device has been given all of a collective. Its time begins when the device comes to
  /// `begun` and those before it are done: what it waits for on this rank is no peer's fault.
  void watch(const Call& call, std::shared_ptr<const Event> begun,
             std::shared_ptr<const Event> ended);

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    Call call;
    std::shared_ptr<const Event> begun, ended;
    std::optional<Clock::time_point> since = {};
  };

  void run();
  void look();
  std::optional<Watched> oldest();

  const Membership& membership_;
  NcclCommunicator& communicator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  Call last_;
  std::deque<Watched> watched_;
  std::thread thread_;
};

}  // namespace ringlet::comm
