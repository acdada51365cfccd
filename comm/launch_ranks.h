// The two ways to start ranks inside a program.
#pragma once

#include <string>

#include "ringlet/comm/launch.h"

namespace ringlet::comm {

void launch_threads(const std::function<void(const Group&)>& rank_main, int n,
                    const LaunchOptions& options);
void launch_processes(const std::function<void(const Group&)>& rank_main, int n,
                      const LaunchOptions& options);

/// `what` if it begins with `cause` (the group's cause, then where the rank was), else `cause`.
std::string fuller(const std::string& cause, const std::string& what);

/// Made by the parent and shared with all its children.
std::shared_ptr<Store> make_forked_store();

}  // namespace ringlet::comm
