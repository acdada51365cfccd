// Repeated timing of a collective on all its ranks.
#pragma once

#include <functional>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::bench {

/// Seconds of each run of `once` by the clock of this rank's device. All ranks call it and run it
/// equally often, for about `budget` seconds, at least three times.
std::vector<double> repeat(const comm::Group& world, Device device, double budget,
                           const std::function<void()>& once);

}  // namespace ringlet::bench
