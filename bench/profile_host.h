// A step's profile by the clock of the host, whose kernels are done when they return.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "profile.h"
#include "ringlet/core/kernel.h"
#include "ringlet/core/wait_observer.h"

namespace ringlet::bench {

/// Times all kernel calls and waits of the process while it lives.
class HostProfile final : public StepProfile, public KernelObserver, public WaitObserver {
 public:
  explicit HostProfile(Device device);
  ~HostProfile() override;
  HostProfile(const HostProfile&) = delete;
  HostProfile& operator=(const HostProfile&) = delete;

  void run(const std::function<void(bool again)>& step) override;
  StepTimes per_step() const override;

  void before(const char* name, const void* args, Device device) override;
  void after(const char* name, const void* args, Device device) override;
  void wait_begins(const char* what) override;
  void wait_ends(const char* what) override;

 private:
  Device device_;
  // What runs between steps, or measures the ceilings, is none of theirs.
  std::atomic<bool> in_step_ = false;
  std::mutex mutex_;
  double steps_ = 0;
  Calls calls_, beside_;
  std::map<std::string, double> waits_;  // seconds
  double between_ = 0;                   // seconds
};

}  // namespace ringlet::bench
