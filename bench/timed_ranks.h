// Collectives of a bench's ranks, timed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::bench {

/// The group of the first `ranks` of `world`; every rank calls it. The other ranks get a group of
/// one.
comm::Group first_ranks(const comm::Group& world, int ranks, const comm::GroupOptions& options);

/// Seconds of each run of `once` by the clock of this rank's device. All ranks call it and run it
/// equally often, for about `budget` seconds, at least three times.
std::vector<double> repeat(const comm::Group& world, Device device, double budget,
                           const std::function<void()>& once);

/// The link between the ranks of a run, for bench/predicted.py. All-reduces of f32 in a few sizes
/// take some hundred ms in total; every rank calls it. JSON: ranks, all_reduce with bytes and us,
/// ascending, and GB_per_s, which each rank sends at the largest size (nccl-tests' busbw).
std::string time_link(const comm::Group& group, Device device);

}  // namespace ringlet::bench
