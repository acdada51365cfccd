// What threads wait for between kernels: beside KernelObserver, the rest of where a step's time
// goes.
#pragma once

#include <atomic>

namespace ringlet {

/// Sees every wait of the process that is not inside a kernel, on the thread that waits, which may
/// run kernels meanwhile.
class WaitObserver {
 public:
  virtual ~WaitObserver() = default;
  /// For "collectives", "devices" or "data".
  virtual void wait_begins(const char* what) = 0;
  virtual void wait_ends(const char* what) = 0;
};
/// The one that sees the waits that begin from now on; null where none does. It outlives them.
inline std::atomic<WaitObserver*> wait_observer = nullptr;

/// A wait, as long as it lives.
class ObservedWait {
 public:
  explicit ObservedWait(const char* what)
      : what_(what), observer_(wait_observer.load(std::memory_order_acquire)) {
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
