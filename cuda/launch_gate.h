// Keeps calls of the driver that may wait for running kernels apart from launches that wait for
// those of other GPUs. Such a call may hold a lock of the driver that a missing launch needs. The
// running kernels wait for that launch, so neither would end before a timeout. PyTorch took its
// allocator's mutex around NCCL's launches for the same reason.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

namespace ringlet::cuda {

/// One for the process, since a driver has one lock for all GPUs.
class LaunchGate {
 public:
  static LaunchGate& instance();

  /// A call that may allocate or free memory of a device or of pinned pages, or load kernels. So is
  /// one that makes streams, events or graphs. It waits for the end of open rounds, at most until
  /// their deadlines. It does not wait within a launch of a round, nor where an exception ends a
  /// scope: that rank's launch will not come. No other lock is taken within, since its owner may
  /// wait here.
  class Call {
   public:
    Call();
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
  };

  /// Opens the round of `owner`: waits for the end of other rounds, and then of calls. Rounds
  /// therefore launch in one order on all GPUs. Error if calls do not end in `seconds`.
  void open_round(const void* owner, double seconds);
  void end_round(const void* owner) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point deadline() const;  // of the last open round
  void wait_for_rounds(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const void*, Clock::time_point> rounds_;  // by owner: the deadline
  int calls_ = 0;                                    // in progress
};

/// The launches of a collective, one on each of several GPUs: a round begins with the first of them
/// and ends with the last. The hosts have met before: each comes to its launch without such a call.
class LaunchRound {
 public:
  LaunchRound(int launches, double seconds) : launches_(launches), seconds_(seconds) {}
  ~LaunchRound() { abandon(); }
  LaunchRound(const LaunchRound&) = delete;
  LaunchRound& operator=(const LaunchRound&) = delete;

  /// The scope of one launch.
  class Launch {
   public:
    explicit Launch(LaunchRound& round);
    ~Launch();
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

   private:
    LaunchRound& round_;
  };

  /// After an error of a rank: its launches will not come. Ends this round, and later ones do not
  /// begin.
  void abandon() noexcept;

 private:
  const int launches_;
  const double seconds_;
  std::mutex mutex_;
  int left_ = 0;  // launches of the open round; 0: none is open
  bool abandoned_ = false;
};

}  // namespace ringlet::cuda
