// A thread for each group over gloo, because gloo's waits do not see the alarm.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "ringlet/comm/transports/store_progress.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {

/// Ends a wait inside gloo when the alarm is raised, and publishes this rank's progress.
class GlooWatchdog {
 public:
  GlooWatchdog(std::shared_ptr<Store> store, StoreProgress& progress)
      : store_(std::move(store)), progress_(progress) {}
  ~GlooWatchdog() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  GlooWatchdog(const GlooWatchdog&) = delete;
  GlooWatchdog& operator=(const GlooWatchdog&) = delete;

  void watch(::gloo::transport::UnboundBuffer* buffer) {
    const std::lock_guard lock(mutex_);
    watched_ = buffer;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    auto publish_at = std::chrono::steady_clock::now() + progress_.interval();
    while (!stop_) {
      changed_.wait_for(lock, std::chrono::milliseconds(20));
      if (!store_->raised() && std::chrono::steady_clock::now() >= publish_at) {
        lock.unlock();
        publish();
        publish_at = std::chrono::steady_clock::now() + progress_.interval();
        lock.lock();
      }
      if (!watched_ || !store_->raised()) continue;
      watched_->abortWaitRecv();
      watched_->abortWaitSend();
    }
  }

  void publish() const noexcept {
    try {
      progress_.publish();
    } catch (const std::exception&) {  // the store has ended: the alarm reports it
    }
  }

  std::shared_ptr<Store> store_;
  StoreProgress& progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  ::gloo::transport::UnboundBuffer* watched_ = nullptr;
  std::thread thread_ = start_thread([this] { run(); });
};

}  // namespace ringlet::comm
