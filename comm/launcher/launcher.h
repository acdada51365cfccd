// The launcher behind `ringlet run`: starts the ranks of this host, watches them, and ends them
// together. It also keeps the job's store, so it detects every rank's end immediately.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/comm/store.h"

namespace ringlet::comm {

/// A selection of a rank's output streams.
struct Streams {
  bool out = false;
  bool err = false;
};

struct LauncherOptions {
  std::vector<std::string> command;  // program, arguments
  int nproc_per_node = 1;
  int nnodes = 1;
  /// Empty: the host of master_addr is node 0, other nodes are numbered in the order of arrival.
  std::optional<int> node_rank = {};
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // of the store; 0, with one node only: a free one
  std::string run_id = "none";
  int max_restarts = 0;
  /// Each rank's output goes to LOG_DIR/attempt_A/rank_R/stdout.log and stderr.log. Empty: to the
  /// screen.
  std::filesystem::path log_dir = {};
  /// With log_dir: the streams that also go to the screen, by local rank.
  std::vector<Streams> tee = {};
  /// Time between a signal that is passed on to the ranks and SIGKILL. The default is torchrun's,
  /// and Slurm's KillWait. After a failure it is at most 5 s, from SIGTERM.
  Timeout grace = std::chrono::seconds(30);
  /// How long a node's launcher may be silent before the other nodes end their ranks.
  Timeout node_timeout = std::chrono::seconds(30);
  /// Binds each rank to dedicated processors, if there are enough.
  bool pin = true;
};

/// How a job ended.
struct JobEnd {
  /// On all nodes: 0, or that of the first rank that failed (128 + the signal that killed it), or
  /// 128 + the signal that stopped the launcher.
  int code = 0;
  int signal = 0;  // that stopped the launcher; 0: none
};

/// Runs the command on every rank, again after a failure if max_restarts allows it. Ranks see
/// torchrun's environment variables. Their output goes to `out` and `err`. The first rank to fail,
/// and its last lines, are printed to `err`.
///
/// It takes the process over, on its main thread. SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the
/// ranks, and all processes below this one are killed before it returns.
JobEnd run_launcher(const LauncherOptions& options, std::ostream& out, std::ostream& err);

}  // namespace ringlet::comm
