// When the kernels, copies and fills of a GPU ran, from CUPTI's activity records. Each kernel of a
// graph has a record.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ringlet/core/device/device.h"
#include "ringlet/cuda/intervals.h"

namespace ringlet::cuda {

struct Cupti;

struct Activity {
  Interval time;
  std::string name;  // of a kernel, mangled; else "copy" or "fill"
  bool in_graph = false;

  friend bool operator==(const Activity&, const Activity&) = default;
};

/// Records during its lifetime. Recording slows the work down, and may slow it slightly afterwards.
class ActivityRecording {
 public:
  virtual ~ActivityRecording() = default;
  /// Synchronises with the device. Returns its work since the beginning or the last call, in any
  /// order.
  /// Error if a record is missing or incomplete.
  virtual std::vector<Activity> take() = 0;
};

/// Starts recording; at most one recording at a time in a process. Error, one line with CUPTI's
/// message, where CUPTI is missing or the system forbids recording.
std::unique_ptr<ActivityRecording> record_activity(Device device);
/// The same with these functions of CUPTI.
std::unique_ptr<ActivityRecording> record_activity(Device device, const Cupti& cupti);

}  // namespace ringlet::cuda
