// One trial of the drill: a job in which one rank goes wrong.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "ringlet/train/cli/drill_rank.h"

namespace ringlet::cli {

struct DrillOptions {
  int trials = 10;
  std::vector<std::string> transports{"shm", "gloo"};
  std::vector<std::string> faults;
  int ranks = 3;
  std::int64_t steps = 8;
  double timeout = 3;
  std::uint64_t seed = 1;
  bool keep = false;
  // For a rank that the drill starts.
  std::string rank_folder, fault = "none";
  int culprit = 0;
  std::int64_t at = 0;
  double point = 0;
};

struct DrillTrial {
  comm::TransportKind transport;
  Fault fault;
  int culprit;
  std::int64_t at;
  double point;  // of what the culprit writes to a checkpoint
  bool processes() const { return transport != comm::TransportKind::thread; }
};

/// The results of one trial.
struct DrillOutcome {
  int code;
  std::string output;               // of the launcher
  std::vector<std::string> errors;  // stderr of each process's first attempt
  double seconds = 0;               // from the fault to the restart
};

/// Runs it under the launcher, in this process; it is restarted once, unless nothing is to go
/// wrong. Exit where a signal stops it.
DrillOutcome run_trial(const DrillOptions& options, const DrillTrial& trial,
                       const std::filesystem::path& folder);

/// The file's bytes; empty where there is none.
std::string text_of(const std::filesystem::path& file);

/// The end that every trial must reach: that of the same training without a fault.
struct DrillEnd {
  std::string parameters;       // as bytes
  std::set<std::string> files;  // below run/
};
DrillEnd end_of(const DrillOptions& options, const std::filesystem::path& folder);

/// Empty, or what was wrong with how the ranks took it.
std::string judge(const DrillOptions& options, const DrillTrial& trial, const DrillOutcome& outcome,
                  const std::filesystem::path& folder, const DrillEnd& undisturbed);

}  // namespace ringlet::cli
