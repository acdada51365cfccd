// A step's profile by the clock of the host, for kernels that are complete when they return.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "profile.h"
#include "ringlet/core/kernel.h"
#include "ringlet/core/wait_observer.h"

namespace ringlet::bench {

/// Times all kernel calls and waits of the process during its lifetime.
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
  // Excludes work between steps and the measurement of the ceilings.
  std::atomic<bool> in_step_ = false;
  std::mutex mutex_;
  double steps_ = 0;
  Calls calls_, beside_;
  std::map<std::string, double> waits_;  // seconds
  double between_ = 0;                   // seconds
};

}  // namespace ringlet::bench
