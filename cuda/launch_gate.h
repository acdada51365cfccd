// Keeps calls of the driver that may wait for running kernels apart from launches that wait for
// those of other GPUs. Such a call may hold a lock of the driver that a missing launch needs. The
// running kernels wait for that launch, so neither would end before a timeout. PyTorch took its
// allocator's mutex around NCCL's launches for the same reason.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <span>

namespace ringlet::cuda {

/// The launches of a collective, one on each of several GPUs: a round begins with the first of them
/// and ends with the last. The hosts have met before, and each comes to its launch without a
/// LaunchGate::Call, or a lock that is held around one.
class LaunchRound {
 public:
  LaunchRound(int launches, double seconds) : launches_(launches), seconds_(seconds) {}
  ~LaunchRound() { abandon(); }
  LaunchRound(const LaunchRound&) = delete;
  LaunchRound& operator=(const LaunchRound&) = delete;

  /// After an error of a rank: its launches will not come. Ends this round, and later ones do not
  /// begin.
  void abandon() noexcept;

 private:
  friend class LaunchGate;

  const int launches_;
  const double seconds_;
  // The rest is under the gate's mutex.
  int left_ = 0;        // launches of the open round; 0: none is open
  bool ready_ = false;  // the calls that it waited for have ended
  bool abandoned_ = false;
  std::chrono::steady_clock::time_point deadline_;
};

/// One for the process, since a driver has one lock for all GPUs.
class LaunchGate {
 public:
  using Rounds = std::span<const std::shared_ptr<LaunchRound>>;

  static LaunchGate& instance();

  /// A call that may allocate or free memory of a device or of pinned pages, or load kernels. So is
  /// one that makes a context, streams, events or graphs. It waits until no round is open, or until
  /// all have passed their deadlines. It does not wait within another one or a launch, nor where an
  /// exception ends a scope: that rank's launch will not come. No other lock is taken within, since
  /// its owner may wait here.
  class Call {
   public:
    Call();
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
  };

  /// The scope of a launch that belongs to all of these rounds, as a graph's may. It waits for open
  /// rounds, unless its own are among them, then for calls. Error if these do not end in time.
  class Launch {
   public:
    explicit Launch(Rounds rounds);  // must outlive this
    ~Launch();
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

   private:
    Rounds rounds_;
  };

 private:
  friend class LaunchRound;
  using Clock = std::chrono::steady_clock;

  Clock::time_point deadline() const;  // of the last open round
  void open(Rounds rounds, std::unique_lock<std::mutex>& lock);
  void close(LaunchRound& round);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<LaunchRound*> open_;
  int calls_ = 0;  // in progress
};

/// Whether this thread is in a LaunchGate::Call, and in no LaunchGate::Launch. The emulated GPUs of
/// tests refuse such calls elsewhere.
bool may_call_driver();

}  // namespace ringlet::cuda
