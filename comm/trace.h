// What a rank does in a collective, as a table.
#pragma once

#include <string>

#include "ringlet/comm/collectives.h"

namespace ringlet::comm {

/// A line per step and peer: the pieces sent and received, with their bytes, and what becomes of
/// what came in.
std::string trace(const Collective& collective, int rank, int size);

}  // namespace ringlet::comm
