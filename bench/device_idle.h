// How long a GPU has nothing to do in steps that are replayed, by records of what it did.
#pragma once

#include <functional>

#include "ringlet/cuda/activity.h"

namespace ringlet::bench {

/// Of steps in a row, from the first thing that the device did to the last.
struct DeviceIdle {
  double steps = 0;    // 0: not measured
  double span_ms = 0;  // of a step, slower than it is without records
  double busy_ms = 0;  // of that
  double longest_gap_ms = 0;
  double share = 0;  // of the span that is not busy
};

/// `replay(steps)` takes so many steps and says whether all of them were replayed; it may stop at
/// one that was not. Of what was recorded the first steps are left out, with which recording
/// itself gets under way. Error where no steps in a row were all replayed.
DeviceIdle record_idle(cuda::ActivityRecording& recording, int steps,
                       const std::function<bool(int steps)>& replay);

}  // namespace ringlet::bench
