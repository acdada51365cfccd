// How long a GPU is idle in replayed steps, from records of its activity.
#pragma once

#include <functional>
#include <string>

#include "ringlet/cuda/activity.h"

namespace ringlet::bench {

/// For consecutive steps, from the first kernel of a graph to the device's last activity. The first
/// graph is launched on an idle device, so the time before it belongs to no step.
struct DeviceIdle {
  double steps = 0;    // 0: not measured
  double span_ms = 0;  // per step; recording makes it longer
  double busy_ms = 0;  // part of the span
  double longest_gap_ms = 0;
  double share = 0;  // idle share of the span
  double share_without_longest = 0;
  double longest_gap_at = 0;             // share of the span before it
  std::string longest_from, longest_to;  // what runs before and after it
  double before_ms = 0;                  // from the device's first activity to the first graph
};

/// `replay(steps)` runs that many steps and returns whether all of them were replayed; it may stop
/// at the first that was not. The records of its first call are discarded, because recording itself
/// starts in them. Error if no call replayed all of its steps.
DeviceIdle record_idle(cuda::ActivityRecording& recording, int steps,
                       const std::function<bool(int steps)>& replay);

}  // namespace ringlet::bench
