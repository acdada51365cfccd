// The link between the ranks of a run, timed in that run, for bench/predicted.py.
#pragma once

#include <string>

#include "ringlet/comm/group.h"

namespace ringlet::bench {

/// All-reduces of f32 in a few sizes, some hundred ms in total; every rank calls it. JSON: ranks,
/// all_reduce with bytes and us, ascending, and GB_per_s, which each rank sends at the largest size
/// (nccl-tests' busbw).
std::string time_link(const comm::Group& group, Device device);

}  // namespace ringlet::bench
