// What a process can find out about where it runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ringlet::comm {

/// This host's own name.
std::string host_name();
/// Of the running kernel: the same in all containers and network namespaces on it.
std::string boot_id();
/// The processors that this process may use, ascending; none where the system does not say.
std::vector<int> affinity();
/// The variable's value, if it is set to something.
std::optional<std::string> environment_variable(const char* name);

}  // namespace ringlet::comm
