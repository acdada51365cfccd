// Random programs of collectives, in which ranks throw, are killed or stopped, and foreign
// connections reach the store. No rank may wait for ever or get a wrong result.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "ringlet/comm/types.h"

namespace ringlet::drill {

struct Programs {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;  // number of the first program
  std::chrono::seconds time{10};
  std::vector<comm::TransportKind> transports;
};

/// Runs one program after another until the time is over. Prints a line for each one that went
/// wrong, with its number, and a summary. Returns how many did.
int run_programs(const Programs& programs);

}  // namespace ringlet::drill
