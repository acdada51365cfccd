#include "ringlet/comm/queue.h"

#include <utility>

#include "ringlet/comm/types.h"
#include "ringlet/core/device/observers.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {

void Queue::push(std::shared_ptr<Collective> collective) {
  const bool wakes = !CallerRuns::active();
  const std::lock_guard lock(mutex_);
  if (wakes && !thread_.joinable()) thread_ = start_thread([this] { run_all(); });
  waiting_.push_back(std::move(collective));
  if (wakes && !looking_) work_.notify_one();
}

void Queue::wait(const Collective& collective, bool is_observed) {
  if (!collective.done) {
    const ObservedWait observed(is_observed ? "collectives" : nullptr);
    const auto start = Clock::now();
    auto now = start;
    std::unique_lock lock(mutex_);
    while (!collective.done) {
      callers_run_ = callers_run_ || !running_;
      now = run_next_or_wait(lock, now);
    }
    waited_time_ += now - start;
  }
  if (collective.error) std::rethrow_exception(collective.error);
}

void Queue::when_done(Collective& collective, std::function<void(std::exception_ptr)> ended) {
  {
    const std::lock_guard lock(mutex_);
    if (!collective.done) {
      collective.ended = std::move(ended);
      return;
    }
  }
  ended(collective.error);
}

void Queue::wait_for_all() {
  std::unique_lock lock(mutex_);
  while (!waiting_.empty() || running_) run_next_or_wait(lock, Clock::now());
}

void Queue::drain() {
  wait_for_all();
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Queue::Clock::time_point Queue::run_next_or_wait(std::unique_lock<std::mutex>& lock,
                                                 Clock::time_point now) {
  if (!running_) return run_next(lock, now);
  changed_.wait(lock);
  return Clock::now();
}

Queue::Clock::time_point Queue::run_next(std::unique_lock<std::mutex>& lock,
                                         Clock::time_point now) {
  const std::shared_ptr<Collective> next = waiting_.front();
  waiting_.pop_front();
  running_ = true;
  lock.unlock();
  try {
    run_(*next);
  } catch (...) {
    next->error = std::current_exception();
  }
  const auto end = Clock::now();
  lock.lock();
  running_time_ += end - now;
  running_ = false;
  ++ran_;
  next->done = true;
  changed_.notify_all();
  if (!waiting_.empty()) work_.notify_one();
  if (auto ended = std::exchange(next->ended, nullptr)) {
    lock.unlock();  // it, and the end of what it owns, may call this queue
    ended(next->error);
    ended = nullptr;
    lock.lock();
  }
  return end;
}

void Queue::run_all() {
  std::unique_lock lock(mutex_);
  while (wait_for_work(lock)) run_next(lock, Clock::now());
  if (!stop_) thread_.detach();  // releases its stack; nothing here is used after the lock
}

// False once the queue has ended, or was empty for a while.
bool Queue::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto work = [&] { return !waiting_.empty() && !running_; };
  while (!stop_ && (callers_run_ || !work())) {
    const auto wakes = [&] { return stop_ || callers_run_ || work(); };
    if (!work_.wait_for(lock, std::chrono::seconds(1), wakes) && waiting_.empty()) return false;
    looking_ = callers_run_;
    constexpr auto slice = std::chrono::microseconds(250);
    for (int idle = 0; callers_run_ && idle < 10 && !stop_; ++idle) {
      const auto before = ran_;
      work_.wait_for(lock, slice);
      if (ran_ != before) idle = 0;
      callers_run_ = ran_ != before || !work();  // else no caller ran one for a slice
    }
    looking_ = callers_run_ = false;
  }
  return work();
}

}  // namespace ringlet::comm
