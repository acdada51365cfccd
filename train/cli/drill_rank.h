// One rank of the drill: a small training under DDP in which one rank goes wrong at one step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::cli {

enum class Fault {
  none,
  killed,         // SIGKILL
  stopped,        // SIGSTOP: alive, but silent
  closed_socket,  // its connections break
  skipped,        // leaves a collective out
  other_op,       // calls another one
  other_size,     // calls it with another number of elements
  nan,            // its loss is not a number
  disk_full       // its checkpoint finds no room
};
std::string_view name(Fault fault);  // "killed"
/// InputError with the known names.
Fault parse_fault(std::string_view name);
/// A thread can be made to do some of them only.
bool needs_processes(Fault fault);
/// All but none, that ranks of this kind can have.
std::vector<Fault> all_faults(bool processes);

struct DrillRank {
  std::filesystem::path folder;  // of the trial: checkpoints go to folder/run
  Fault fault = Fault::none;
  int culprit = 0;
  std::int64_t at = 0;  // the step in which it goes wrong, counted from 1
  std::int64_t steps = 8;
  double timeout = 3;  // seconds that a collective waits
  comm::TransportKind transport = comm::TransportKind::shm;
  int ranks = 3;  // where they are threads; otherwise the launcher says
};

/// Trains to the end, or throws what the fault leads to. After a restart it goes on from the latest
/// checkpoint and nothing goes wrong. Leaves folder/fault_at when it goes wrong.
void run_drill_rank(const DrillRank& drill);

}  // namespace ringlet::cli
