// What a GPU does and when, as CUPTI's activity records have it: kernels, those of graphs each for
// itself, copies and fills.
#pragma once

#include <memory>
#include <vector>

#include "ringlet/core/device.h"
#include "ringlet/cuda/intervals.h"

namespace ringlet::cuda {

/// Records while it lives. Work is slower meanwhile, and may be a little from then on.
class ActivityRecording {
 public:
  virtual ~ActivityRecording() = default;
  /// Waits for the device. When its work ran, since the beginning or the call before; Error where
  /// some of it is not known.
  virtual std::vector<Interval> take() = 0;
};

/// From here on, one at a time in a process. Error, a line with CUPTI's words, where nothing can be
/// recorded: there is no CUPTI, or the system forbids it.
std::unique_ptr<ActivityRecording> record_activity(Device device);

}  // namespace ringlet::cuda
