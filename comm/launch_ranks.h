// The two ways to start ranks inside a program.
#pragma once

#include <string>

#include "ringlet/comm/launch.h"

namespace ringlet::comm {

void launch_threads(const std::function<void(const Group&)>& rank_main, int n,
                    const LaunchOptions& options);
void launch_processes(const std::function<void(const Group&)>& rank_main, int n,
                      const LaunchOptions& options);

/// What a rank threw, where that is the group's cause and more: where it was then.
std::string fuller(const std::string& cause, const std::string& what);

/// Made by the parent, shared by it and all its children.
std::shared_ptr<Store> make_forked_store();

}  // namespace ringlet::comm
