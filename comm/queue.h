// The collectives of a group that wait to be run, in order. The group's own thread runs them, or a
// caller that waits for one of them. The thread sleeps in between, and ends after an idle second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "ringlet/comm/engine.h"

namespace ringlet::comm {

class Queue {
 public:
  /// `run` executes a collective; the queue keeps what it throws.
  explicit Queue(std::function<void(Collective&)> run) : run_(std::move(run)) {}
  ~Queue() { drain(); }

  void push(std::shared_ptr<Collective> collective);
  /// Waits until it is done, running collectives if no other thread does; rethrows its error.
  void wait(const Collective& collective, bool is_observed = true);
  /// Calls `ended` with its error, or null, once it is done, on the thread that ran it; or now.
  void when_done(Collective& collective, std::function<void(std::exception_ptr)> ended);
  void wait_for_all();
  /// Runs the remaining collectives and ends the thread.
  void drain();
  bool is_idle() const {
    return if_idle([] {});
  }
  /// Calls `read` if it is idle; no collective runs in the meantime. Returns whether it did.
  template <class Read>
  bool if_idle(const Read& read) const {
    const std::lock_guard lock(mutex_);
    const bool idle = waiting_.empty() && !running_;
    if (idle) read();
    return idle;
  }

  double seconds_running() const { return seconds(running_time_); }
  double seconds_waited() const { return seconds(waited_time_); }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds(const Clock::duration& time) const {
    const std::lock_guard lock(mutex_);
    return std::chrono::duration<double>(time).count();
  }
  /// They return the time of their end.
  Clock::time_point run_next_or_wait(std::unique_lock<std::mutex>& lock, Clock::time_point now);
  Clock::time_point run_next(std::unique_lock<std::mutex>& lock, Clock::time_point now);
  void run_all();
  bool wait_for_work(std::unique_lock<std::mutex>& lock);

  std::function<void(Collective&)> run_;
  mutable std::mutex mutex_;
  std::condition_variable work_;     // the thread waits for collectives
  std::condition_variable changed_;  // callers wait for the end of one
  std::deque<std::shared_ptr<Collective>> waiting_;
  bool running_ = false;  // some thread runs one
  // Waking the thread costs more than a small collective. While waiting callers run the queue,
  // push() does not wake it: the thread polls until no caller runs it any more.
  bool callers_run_ = false, looking_ = false;
  std::uint64_t ran_ = 0;
  bool stop_ = false;
  std::thread thread_;
  Clock::duration running_time_{0}, waited_time_{0};
};

}  // namespace ringlet::comm
