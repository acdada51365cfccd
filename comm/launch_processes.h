// Ranks as forked processes. The parent waits for them and reports a rank that was killed. It kills
// the remaining ranks some seconds after the group has failed.
#pragma once

#include <functional>

#include "ringlet/comm/group.h"

namespace ringlet::comm {

/// launch() with Ranks::processes; the last two arguments are those of LaunchOptions.
void launch_processes(const std::function<void(const Group&)>& rank_main, int n,
                      const GroupOptions& group, const std::function<int()>& signal);

}  // namespace ringlet::comm
