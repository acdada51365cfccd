// The launcher behind `ringlet run`: starts the ranks of this host, watches them, and ends them
// together. Launchers of several hosts do not communicate; their ranks do.
#pragma once

#include <filesystem>
#include <iosfwd>
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
  /// Hosts, each with as many ranks. With one host the launcher keeps the ranks' store, and so
  /// detects each rank's end immediately. With several, rank 0 keeps it.
  int nnodes = 1;
  int node_rank = 0;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // of the store; 0, with one host only: a free one
  std::string run_id = "none";
  int max_restarts = 0;  // 0 with several hosts
  /// A job goes on if so many ranks are left when others were killed, or hang longer than the
  /// grace. It does so in the same processes if these call regroup_from_env(), else in new ones.
  /// Each time counts as a restart. In the same processes a killed rank is then started anew while
  /// a restart is left, and joins the others. 0: every restart has all ranks.
  int min_ranks = 0;
  /// Each rank's output goes to LOG_DIR/attempt_A/rank_R/stdout.log and stderr.log. Empty: to the
  /// screen.
  std::filesystem::path log_dir = {};
  /// With log_dir: the streams that also go to the screen, by local rank.
  std::vector<Streams> tee = {};
  /// Time between a signal that is passed on to the ranks and SIGKILL. The default is torchrun's,
  /// and Slurm's KillWait. After a failure it is at most 5 s, from SIGTERM.
  Timeout grace = std::chrono::seconds(30);
  /// Binds each rank to dedicated processors, if there are enough.
  bool pin = true;
};

/// How a job ended.
struct JobEnd {
  /// 0, or that of the first rank that failed (128 + the signal that killed it), or 128 + the
  /// signal that stopped the launcher.
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
