// A rank's part of a collective, as a table.
#pragma once

#include <string>

#include "ringlet/comm/engine.h"

namespace ringlet::comm {

/// One line per step and peer: the pieces sent and received, with their bytes, and the use of the
/// received ones.
std::string trace(const Collective& collective, int rank, int size);

}  // namespace ringlet::comm
