// Starts ranks inside a program, as threads or processes.
#pragma once

#include <functional>

#include "ringlet/comm/group.h"

namespace ringlet::comm {

enum class Ranks : std::uint8_t { threads, processes };

struct LaunchOptions {
  Ranks ranks = Ranks::threads;
  GroupOptions group = {};
  /// For processes: called ten times a second. A signal that it returns is sent to all ranks, once.
  std::function<int()> signal = {};
};

/// Runs `rank_main` on n ranks and returns when all have ended. A rank that throws ends its peers;
/// the first cause is rethrown, naming the rank. Ranks that are processes are forked: their changes
/// stay with them, also those to earlier tensors. A rank that was killed is named; one that cannot
/// run any more is killed some seconds after its peers have failed. Nothing else may run in the
/// program while it forks.
void launch(const std::function<void(const Group&)>& rank_main, int n, LaunchOptions options = {});

}  // namespace ringlet::comm
