// The host of this process, its processors and its environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ringlet::comm {

/// This host's own name.
std::string host_name();
/// An id of the running kernel: the same in all containers and network namespaces on it.
std::string boot_id();
/// The processors that this process may use, ascending; empty if the system does not report them.
std::vector<int> affinity();
/// The variable's value; nothing if it is unset or empty.
std::optional<std::string> environment_variable(const char* name);

}  // namespace ringlet::comm
