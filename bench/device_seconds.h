// How long a device takes for work that is given to it again and again.
#pragma once

#include <functional>

#include "ringlet/core/device.h"

namespace ringlet::bench {

/// Seconds of one run: the median of batches of runs, about `least` seconds in all. A device that
/// runs behind the host gets each batch ahead, so that it has no gaps; operands that fit into its
/// cache are there, as they are in a step.
double device_seconds(Device device, const std::function<void()>& run, double least = 0.02);

}  // namespace ringlet::bench
