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
  killed_saving,  // the same, in the middle of a checkpoint
  stopped,        // SIGSTOP: alive, but silent
  closed_socket,  // its connections break
  skipped,        // leaves a collective out
  other_op,       // calls another one
  other_size,     // calls it with another number of elements
  nan,            // its loss is not a number
  disk_full       // its part of a checkpoint finds no room
};
std::string_view name(Fault fault);  // "killed"
/// InputError with the known names.
Fault parse_fault(std::string_view name);
/// A thread can be made to do some of them only.
bool needs_processes(Fault fault);
/// It is drilled on a rank that saves, while it does.
bool hits_checkpoint(Fault fault);
/// How many of so many ranks, the first ones, surely write to both files of a checkpoint: those
/// that share the first layer's weights.
int saving_ranks(int ranks);
/// The first step from `step` on that ends with a checkpoint, in a training of so many.
std::int64_t next_checkpoint(std::int64_t step, std::int64_t steps);
/// All but none, that ranks of this kind can have.
std::vector<Fault> all_faults(bool processes);

struct DrillRank {
  std::filesystem::path folder;  // of the trial: checkpoints go to folder/run
  Fault fault = Fault::none;
  int culprit = 0;
  std::int64_t at = 0;  // the step in which it goes wrong, counted from 1
  double point = 0;     // from 0 to below 1: where in what it writes
  std::int64_t steps = 8;
  double timeout = 3;  // seconds that a collective waits
  comm::TransportKind transport = comm::TransportKind::shm;
  int ranks = 3;  // where they are threads; otherwise the launcher says
};

/// Trains to the end, or throws the error that the fault causes. After a restart it resumes from
/// the latest checkpoint without a fault. Writes folder/fault_at when the fault strikes and
/// folder/killed_at when a write kills the rank. A restarted rank writes folder/restarted_at with
/// the names that it finds in folder/run.
void run_drill_rank(const DrillRank& drill);

}  // namespace ringlet::cli
