// All ranks of a group in one thread, which calls their collectives together: for virtual ranks on
// one device, and for graphs (core/graph.h), which one thread captures.
//
//   const std::vector<Group> ranks = local_ranks(4);
//   together(ranks, [&](const Group& rank) { rank.all_reduce(grads[rank.rank()]); });
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::comm {

/// The n ranks of a group of threads, for a program that has one.
std::vector<Group> local_ranks(int n, GroupOptions options = {});

/// Runs what `calls` starts on each of the group's ranks, the first of each rank together, then the
/// second, …: the same number on each, none of which `calls` waits for. When it returns the results
/// are there for what this thread gives the ranks' devices from now on. Error with what went wrong
/// on any rank; the group has failed then.
void together(std::span<const Group> ranks, const std::function<void(const Group& rank)>& calls);

}  // namespace ringlet::comm
