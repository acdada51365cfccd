// Which processors each rank of a host gets.
#pragma once

#include <vector>

namespace ringlet::comm {

/// The processors that this process may use in n parts of neighbours (the two threads of a core
/// stay together); n empty parts where there are fewer than n.
std::vector<std::vector<int>> share_cores(int n);

/// How many processors this process may use.
int usable_processors();

}  // namespace ringlet::comm
