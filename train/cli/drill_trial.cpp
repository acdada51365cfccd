#include "ringlet/train/cli/drill_trial.h"

#include <chrono>
#include <sstream>

#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/core/error.h"
#include "ringlet/core/file.h"
#include "ringlet/train/cli/exit.h"

namespace ringlet::cli {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) { return fs::exists(file) ? read_file(file) : ""; }

DrillOutcome run_trial(const DrillOptions& options, const DrillTrial& trial,
                       const fs::path& folder) {
  const int processes = trial.processes() ? options.ranks : 1;
  comm::LauncherOptions launch;
  launch.command = {fs::read_symlink("/proc/self/exe").string(),
                    "drill",
                    "--rank-folder",
                    folder.string(),
                    "--transport",
                    std::string(name(trial.transport)),
                    "--fault",
                    std::string(name(trial.fault)),
                    "--culprit",
                    std::to_string(trial.culprit),
                    "--at",
                    std::to_string(trial.at),
                    "--point",
                    std::to_string(trial.point),
                    "--steps",
                    std::to_string(options.steps),
                    "--ranks",
                    std::to_string(options.ranks),
                    "--timeout",
                    std::to_string(options.timeout)};
  launch.nproc_per_node = processes;
  launch.max_restarts = trial.fault == Fault::none ? 0 : 1;
  launch.log_dir = folder / "logs";
  launch.grace = std::chrono::seconds(1);
  launch.pin = false;
  fs::create_directories(folder);
  std::ostringstream out, err;
  const comm::JobEnd end = comm::run_launcher(launch, out, err);
  if (end.signal != 0) throw Exit{end.code};  // the drill was meant
  DrillOutcome outcome{end.code, "", {}, 0};
  outcome.output = out.str() + err.str();
  for (int rank = 0; rank < processes; ++rank)
    outcome.errors.push_back(
        text_of(folder / "logs" / "attempt_0" / str("rank_", rank) / "stderr.log"));
  if (const fs::path fault = folder / "fault_at", restart = folder / "restarted_at";
      fs::exists(fault) && fs::exists(restart))
    outcome.seconds =
        std::chrono::duration<double>(fs::last_write_time(restart) - fs::last_write_time(fault))
            .count();
  return outcome;
}

}  // namespace ringlet::cli
