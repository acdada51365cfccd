// A rank of this host in one attempt: its process and its output.
#pragma once

#include <optional>
#include <vector>

#include "ringlet/comm/launcher/launcher.h"
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

/// One run of the command on all ranks of this host.
struct Attempt {
  int number;
  int port;            // of the ranks' store
  std::string token;   // empty: that of the environment
  int ranks_at_start;  // of the job's first attempt
};

/// Starts the ranks of this host. InputError if the program or a log cannot be opened.
std::vector<LocalRank> start_ranks(const LauncherOptions& options, const Attempt& attempt,
                                   std::ostream& out, std::ostream& err);

/// The first failure of an attempt.
struct Failure {
  std::string cause;
  std::string culprit;    // the store's client that reported it; empty: unknown
  std::vector<int> done;  // the local ranks that had exited with 0
};

/// Prints which rank was first to fail, the ranks that had exited with 0, and its last lines. Bad
/// input (code 2) is two lines: the rank's and this one; peers with the same error are not shown.
/// Returns that rank's exit code.
int report_failure(const Failure& failure, std::vector<LocalRank>& ranks, std::ostream& err);

}  // namespace ringlet::comm
