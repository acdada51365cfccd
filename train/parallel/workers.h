// One thread per device, for jobs on all devices.
#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "ringlet/core/device/observers.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::train {

/// run(job) calls job(0) on the caller and job(1) … job(n - 1) on separate threads, and returns
/// when all have ended. The exception of the lowest number is rethrown.
class Workers {
 public:
  explicit Workers(std::size_t n) : errors_(n), all_(static_cast<std::ptrdiff_t>(n)) {
    try {
      for (std::size_t i = 1; i < n; ++i) threads_.push_back(start_thread([this, i] { work(i); }));
    } catch (...) {
      for (std::size_t i = threads_.size() + 1; i < n; ++i) all_.arrive_and_drop();
      stop();
      throw;
    }
  }
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void run(const std::function<void(std::size_t)>& job) {
    start(&job);
    call(0);
    {
      const ObservedWait observed("devices");
      all_.arrive_and_wait();
    }
    for (const std::exception_ptr& error : errors_)
      if (error) std::rethrow_exception(error);
  }

 private:
  void stop() {
    start(nullptr);
    for (std::thread& thread : threads_) thread.join();
  }

  void start(const std::function<void(std::size_t)>* job) {
    job_ = job;
    all_.arrive_and_wait();
  }

  void call(std::size_t i) {
    errors_[i] = nullptr;
    try {
      (*job_)(i);
    } catch (...) {
      errors_[i] = std::current_exception();
    }
  }

  void work(std::size_t i) {
    while (true) {
      all_.arrive_and_wait();
      if (!job_) return;
      call(i);
      all_.arrive_and_wait();
    }
  }

  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
  std::barrier<> all_;  // at the beginning and at the end of a job
  const std::function<void(std::size_t)>* job_ = nullptr;
};

}  // namespace ringlet::train
