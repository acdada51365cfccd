// The collectives of a group that wait to be run, in order. They are run by the group's own thread,
// which sleeps in between, or by a caller that waits for one of them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ringlet::comm {

struct Task {
  std::function<void()> run;
  std::atomic<bool> done{false};
  std::exception_ptr error{};  // valid when done
};

class Queue {
 public:
  ~Queue() { drain(); }

  void push(const std::shared_ptr<Task>& task);
  /// The same for a caller that waits next: does not wake the group's thread.
  void push_quietly(const std::shared_ptr<Task>& task);
  /// Waits until the task is done, running tasks if no other thread does; rethrows its error.
  void wait(Task& task);
  /// Waits until no task is left.
  void wait_for_all();
  /// Runs the remaining tasks and ends the thread.
  void drain();

  double seconds_running() const { return seconds(running_ns_); }
  double seconds_waited() const { return seconds(waited_ns_); }

 private:
  static double seconds(std::int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) * 1e-9;
  }
  void run_next(std::unique_lock<std::mutex>& lock);
  void run_rest(std::unique_lock<std::mutex>& lock);
  void run_all();
  void wait_for_work(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable work_;     // the thread waits for tasks
  std::condition_variable changed_;  // callers wait for the end of a task
  std::deque<std::shared_ptr<Task>> tasks_;
  bool running_ = false;  // some thread runs a task
  // Waking the thread costs more than a small collective. While waiting callers run the tasks,
  // push() does not wake it: the thread polls until no caller runs tasks any more.
  bool callers_run_ = false;
  bool looking_ = false;
  std::uint64_t ran_ = 0;  // tasks
  bool stop_ = false;
  std::thread thread_;
  std::atomic<std::int64_t> running_ns_{0};
  std::atomic<std::int64_t> waited_ns_{0};
};

}  // namespace ringlet::comm
