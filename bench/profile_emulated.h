// A step's profile on the emulated GPU: counters and modelled times, printed.
#pragma once

#include <map>
#include <string>

#include "emulated_counts.h"
#include "profile.h"

namespace ringlet::bench {

/// Each step runs once, with a synchronisation after every op.
class EmulatedProfile final : public StepProfile {
 public:
  EmulatedProfile(Device device, double pairs) : device_(device), pairs_(pairs) {}

  void run(const std::function<void(bool again)>& step) override;
  /// Prints the table; returns no times, since none was measured.
  StepTimes per_step() const override;

 private:
  Device device_;
  double pairs_;
  double steps_ = 0;
  std::map<std::string, OpCounters::Op> ops_;
};

}  // namespace ringlet::bench
