#include <poll.h>

#include <ostream>

#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/comm/launcher/local_rank.h"
#include "ringlet/comm/launcher/process.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

/// Nodes start the next attempt together: otherwise an old rank could meet a new one. Returns the
/// signal that came in the meantime; 0: all nodes are here.
int wait_for_nodes(Job& job, const std::string& point) {
  const Timeout timeout = job.options.grace + kInStep;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  job.nodes.arrive_at(point);
  while (!job.nodes.all_at(point)) {
    RINGLET_CHECK(std::chrono::steady_clock::now() < deadline, "[run] not all nodes came to ",
                  point, " within ", seconds_of(timeout), " s");
    pollfd entry{job.signals.fd().fd(), POLLIN, 0};
    poll(&entry, 1, kLauncherTick);
    if (const int signal = job.signals.next(); signal != 0) {
      job.nodes.stop(signal);
      return signal;
    }
  }
  return 0;
}

}  // namespace

JobEnd run_launcher(const LauncherOptions& options, std::ostream& out, std::ostream& err) {
  // The nodes come first: signals keep their usual effect until there are ranks to pass them on to.
  Job job{options, Nodes(options, err), {}, out, err};
  adopt_orphans();
  struct Sweep {
    ~Sweep() { kill_children(); }
  } sweep;
  for (int attempt = 0;; ++attempt) {
    const JobEnd ended = run_attempt(job, attempt);
    kill_children();
    if (ended.code == 0 || ended.signal != 0 || attempt == options.max_restarts) return ended;
    if (const int signal = wait_for_nodes(job, str("ended/", attempt)); signal != 0)
      return {128 + signal, signal};
    err << "ringlet: starting all ranks again, attempt " << attempt + 1 << " of "
        << options.max_restarts << std::endl;
  }
}

}  // namespace ringlet::comm
