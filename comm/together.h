// All ranks of a group in one thread, which calls their collectives together. For virtual ranks on
// one device, and for graphs (core/device/graph.h), which one thread captures.
//
//   const std::vector<Group> ranks = local_ranks(4);
//   together(ranks, [&](const Group& rank) { rank.all_reduce(grads[rank.rank()]); });
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::comm {

/// The n ranks of a group over thread, for a program with one thread.
std::vector<Group> local_ranks(int n, GroupOptions options = {});

/// Runs the collectives that `calls` starts on each of the group's ranks: first the first of each
/// rank together, then the second, and so on. Every rank needs the same number, and `calls` waits
/// for none. After the return, this thread's later work on the ranks' devices is ordered after the
/// results. Throws the Error of any rank; the group has failed then.
void together(std::span<const Group> ranks, const std::function<void(const Group& rank)>& calls);

}  // namespace ringlet::comm
