// The environment variables that a launcher sets for its ranks.
#pragma once

#include <map>
#include <string>

#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/comm/launcher/nodes.h"

namespace ringlet::comm {

/// torchrun's variables, and those that init_from_env() reads.
std::map<std::string, std::string> rank_environment(const LauncherOptions& options,
                                                    const Nodes& nodes, int attempt,
                                                    int local_rank);

}  // namespace ringlet::comm
