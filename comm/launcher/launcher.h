// The launcher behind `ringlet run`: starts the ranks of this host, watches them, and ends them
// together. It also keeps the job's store, so it detects every rank's end immediately.
#pragma once

#include <iosfwd>

#include "ringlet/comm/launcher/job.h"

namespace ringlet::comm {

/// Runs the command on every rank, again after a failure if max_restarts allows it. Ranks see
/// torchrun's environment variables. Their output goes to `out` and `err`. The first rank to fail,
/// and its last lines, are printed to `err`.
///
/// It takes the process over, on its main thread. SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the
/// ranks, and all processes below this one are killed before it returns.
JobEnd run_launcher(const LauncherOptions& options, std::ostream& out, std::ostream& err);

}  // namespace ringlet::comm
