// A collective, timed again and again on all its ranks.
#pragma once

#include <functional>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::bench {

/// Seconds of each run of `once` by this rank's device's clock; all ranks call it and run it as
/// often, for about `budget` seconds, three times at least.
std::vector<double> repeat(const comm::Group& world, Device device, double budget,
                           const std::function<void()>& once);

}  // namespace ringlet::bench
