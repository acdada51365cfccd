// Starting ranks from inside a program, and finding those that a launcher started.
#pragma once

#include <functional>

#include "ringlet/comm/group.h"

namespace ringlet::comm {

enum class Ranks : std::uint8_t { threads, processes };

struct LaunchOptions {
  Ranks ranks = Ranks::threads;
  GroupOptions group = {};
  /// Of processes: asked ten times a second; the signal that it gives is sent to all ranks, once.
  std::function<int()> signal = {};
};

/// Runs `rank_main` on n ranks and returns when all have ended. A rank that throws ends all others;
/// the first cause is rethrown, naming the rank. As processes, ranks are forked: what they change
/// stays with them, tensors made before included; one that was killed is named, and one that cannot
/// run any more is killed some seconds after the others have failed. Nothing else may run in the
/// program while it forks.
void launch(const std::function<void(const Group&)>& rank_main, int n, LaunchOptions options = {});

}  // namespace ringlet::comm
