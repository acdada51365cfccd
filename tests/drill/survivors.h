// Trainings on logical ranks in which up to half of the ranks are killed at random moments. The
// others go on in the same processes, and end with the files of an undisturbed run. Killed ranks
// are started anew and join them, or are killed again, also while they join.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringlet/comm/types.h"

namespace ringlet::drill {

struct Survivors {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;  // number of the first trial
  int trials = 10;          // for each transport
  std::vector<comm::TransportKind> transports;
};

/// Prints a line for each trial, the times of recovery under DDP, and a summary. Returns how many
/// trials went wrong.
int run_survivors(const Survivors& survivors);

/// The life of one rank; `arguments` are those with which run_survivors() starts it.
void train_survivor(const std::vector<std::string>& arguments);

}  // namespace ringlet::drill
