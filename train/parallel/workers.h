// One thread per device, for jobs on all devices.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "ringlet/core/device/wait_observer.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::train {

/// run(job) calls job(0) on the caller and job(1) … job(n - 1) on separate threads, and returns
/// when all have ended. The exception of the lowest number is rethrown.
class Workers {
 public:
  explicit Workers(std::size_t n) : errors_(n) {
    for (std::size_t i = 1; i < n; ++i) threads_.push_back(start_thread([this, i] { work(i); }));
  }
  ~Workers() {
    start(nullptr);
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void run(const std::function<void(std::size_t)>& job) {
    start(&job);
    call(job, 0);
    {
      const ObservedWait observed("devices");
      std::unique_lock lock(mutex_);
      done_.wait(lock, [&] { return busy_ == 0; });
    }
    for (const std::exception_ptr& error : errors_)
      if (error) std::rethrow_exception(error);
  }

 private:
  void start(const std::function<void(std::size_t)>* job) {
    const std::lock_guard lock(mutex_);
    job_ = job;
    busy_ = threads_.size();
    ++round_;
    started_.notify_all();
  }

  void call(const std::function<void(std::size_t)>& job, std::size_t i) {
    errors_[i] = nullptr;
    try {
      job(i);
    } catch (...) {
      errors_[i] = std::current_exception();
    }
  }

  void work(std::size_t i) {
    for (std::uint64_t seen = 0;;) {
      const std::function<void(std::size_t)>* job;
      {
        std::unique_lock lock(mutex_);
        started_.wait(lock, [&] { return round_ != seen; });
        seen = round_;
        job = job_;
      }
      if (!job) return;
      call(*job, i);
      const std::lock_guard lock(mutex_);
      if (--busy_ == 0) done_.notify_all();
    }
  }

  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable started_, done_;
  const std::function<void(std::size_t)>* job_ = nullptr;
  std::size_t busy_ = 0;
  std::uint64_t round_ = 0;
};

}  // namespace ringlet::train
