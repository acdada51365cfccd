// For profilers and tests: all kernels of the process, and the waits of threads between them.
#pragma once

#include <atomic>

#include "ringlet/core/device/device.h"

namespace ringlet {

/// Receives every kernel call of the process on the calling thread. Calls of different threads
/// overlap. `args` is the kernel's Args.
class KernelObserver {
 public:
  virtual ~KernelObserver() = default;
  virtual void before(const char* name, const void* args, Device device) = 0;
  virtual void after(const char* name, const void* args, Device device) = 0;
};
/// The observer of all calls from now on, or null. It must outlive them.
inline std::atomic<KernelObserver*> kernel_observer = nullptr;

/// Receives every wait of the process outside kernels, on the waiting thread. That thread may run
/// kernels during the wait.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  /// `what` is "collectives", "devices" or "data".
  virtual void wait_begins(const char* what) = 0;
  virtual void wait_ends(const char* what) = 0;
};
/// The observer of waits that begin from now on, or null. It must outlive them.
inline std::atomic<WaitObserver*> wait_observer = nullptr;

/// A wait for the lifetime of this object; null: none.
class ObservedWait {
 public:
  explicit ObservedWait(const char* what)
      : what_(what), observer_(what ? wait_observer.load(std::memory_order_acquire) : nullptr) {
    if (observer_) observer_->wait_begins(what_);
  }
  ~ObservedWait() {
    if (observer_) observer_->wait_ends(what_);
  }
  ObservedWait(const ObservedWait&) = delete;
  ObservedWait& operator=(const ObservedWait&) = delete;

 private:
  const char* what_;
  WaitObserver* observer_;
};

}  // namespace ringlet
