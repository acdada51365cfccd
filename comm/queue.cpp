#include "ringlet/comm/queue.h"

#include <chrono>

#include "ringlet/core/thread.h"
#include "ringlet/core/wait_observer.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

// Adds its lifetime to a counter.
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<std::int64_t>& total) : total_(total) {}
  ~Stopwatch() { total_ += std::chrono::nanoseconds(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::atomic<std::int64_t>& total_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

void Queue::push(const std::shared_ptr<Task>& task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(task);
  if (!thread_.joinable()) thread_ = start_thread([this] { run_all(); });
  if (!looking_) work_.notify_one();
}

void Queue::push_quietly(const std::shared_ptr<Task>& task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(task);
}

void Queue::wait(Task& task) {
  if (!task.done) {
    const Stopwatch waited(waited_ns_);
    const ObservedWait observed("collectives");
    std::unique_lock lock(mutex_);
    while (!task.done) {
      if (!running_) {
        callers_run_ = true;
        run_next(lock);
      } else {
        changed_.wait(lock);
      }
    }
  }
  if (task.error) std::rethrow_exception(task.error);
}

void Queue::wait_for_all() {
  std::unique_lock lock(mutex_);
  run_rest(lock);
}

void Queue::drain() {
  std::unique_lock lock(mutex_);
  run_rest(lock);
  stop_ = true;
  work_.notify_all();
  lock.unlock();
  if (thread_.joinable()) thread_.join();
}

void Queue::run_rest(std::unique_lock<std::mutex>& lock) {
  while (!tasks_.empty() || running_) {
    if (!running_) {
      run_next(lock);
    } else {
      changed_.wait(lock);
    }
  }
}

void Queue::run_next(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Task> task = tasks_.front();
  tasks_.pop_front();
  running_ = true;
  lock.unlock();
  try {
    const Stopwatch running(running_ns_);
    task->run();
  } catch (...) {
    task->error = std::current_exception();
  }
  task->run = nullptr;  // releases its tensors
  lock.lock();
  running_ = false;
  ++ran_;
  task->done = true;
  changed_.notify_all();
  if (!tasks_.empty()) work_.notify_one();
}

void Queue::run_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    wait_for_work(lock);
    if (tasks_.empty() || running_) return;  // stopped
    run_next(lock);
  }
}

void Queue::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto work = [&] { return stop_ || (!tasks_.empty() && !running_); };
  while (true) {
    work_.wait(lock, [&] { return callers_run_ || work(); });
    if (!callers_run_) return;
    looking_ = true;
    constexpr auto slice = std::chrono::microseconds(250);
    bool left_alone = false;
    for (int idle = 0; idle < 10 && !left_alone; ++idle) {
      const auto before = ran_;
      work_.wait_for(lock, slice);
      left_alone = work() && ran_ == before;  // no caller ran a task for a slice
      if (ran_ != before) idle = 0;
    }
    looking_ = callers_run_ = false;
    if (left_alone) return;
  }
}

}  // namespace ringlet::comm
