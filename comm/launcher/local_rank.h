// A rank of this node in one attempt: its process and its output.
#pragma once

#include <optional>
#include <vector>

#include "ringlet/comm/launcher/nodes.h"
#include "ringlet/comm/launcher/output.h"
#include "ringlet/comm/launcher/process.h"

namespace ringlet::comm {

struct LocalRank {
  int rank;  // in the world
  Process process;
  RankStream out;
  RankStream err;
  std::optional<int> exit_code = {};

  /// Passes on its output; true in the call that finds it ended.
  bool attend();
  /// Shows the errors that ended it.
  void show_errors() {
    out.show_error();
    err.show_error();
  }
};

/// Starts the ranks of this node. InputError if the program or a log cannot be opened.
std::vector<LocalRank> start_ranks(const Job& job, int attempt);

/// Prints which rank was first to fail, the local ranks that had exited with 0 (`done`) and, on its
/// node, its last lines. Bad input (code 2) is two lines: the rank's and this one; peers with the
/// same error are not shown. Returns the job's exit code: that rank's, on all nodes.
int report_first_failure(Job& job, int attempt, const TcpStore& alarm,
                         std::vector<LocalRank>& ranks, const std::vector<int>& done);

/// Runs one attempt of a job on this node: starts the ranks, watches them, and ends them together.
/// Returns once this node's ranks have ended and, unless the job has failed, those of all nodes.
JobEnd run_attempt(Job& job, int attempt);

}  // namespace ringlet::comm
