// The time of repeated work on a device.
#pragma once

#include <functional>

#include "ringlet/core/device/device.h"

namespace ringlet::bench {

/// Seconds of one run: the median of batches of runs, about `least` seconds in total. On an
/// asynchronous device a batch starts after all of it is enqueued, so that it has no gaps. Operands
/// that fit into the device's cache are in it, as in a step.
double device_seconds(Device device, const std::function<void()>& run, double least = 0.02);

}  // namespace ringlet::bench
