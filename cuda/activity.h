// When the kernels, copies and fills of a GPU ran, from CUPTI's activity records. Each kernel of a
// graph has a record.
#pragma once

#include <memory>
#include <vector>

#include "ringlet/core/device/device.h"
#include "ringlet/cuda/intervals.h"

namespace ringlet::cuda {

struct Cupti;

/// Records during its lifetime. Recording slows the work down, and may slow it slightly afterwards.
class ActivityRecording {
 public:
  virtual ~ActivityRecording() = default;
  /// Synchronises with the device. Returns when its work ran, since the beginning or the last call.
  /// Error if a record is missing or incomplete.
  virtual std::vector<Interval> take() = 0;
};

/// Starts recording; at most one recording at a time in a process. Error, one line with CUPTI's
/// message, where CUPTI is missing or the system forbids recording.
std::unique_ptr<ActivityRecording> record_activity(Device device);
/// The same with these functions of CUPTI.
std::unique_ptr<ActivityRecording> record_activity(Device device, const Cupti& cupti);

}  // namespace ringlet::cuda
