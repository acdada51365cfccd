// A group of the first of a launcher's ranks.
#pragma once

#include <numeric>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::bench {

/// The group of the first `ranks` of `world`; every rank calls it. The other ranks get a group of
/// one.
inline comm::Group first_ranks(const comm::Group& world, int ranks,
                               const comm::GroupOptions& options) {
  std::vector<int> first(static_cast<std::size_t>(ranks));
  std::iota(first.begin(), first.end(), 0);
  return world.subgroup(first, options);
}

}  // namespace ringlet::bench
