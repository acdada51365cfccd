#include "ringlet/comm/launcher/launcher.h"

#include <poll.h>

#include <ostream>

#include "ringlet/comm/launcher/attempt.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

/// Nodes start the next attempt together: otherwise an old rank could meet a new one. Returns the
/// signal that came in the meantime; 0: all nodes are here.
int wait_for_nodes(Nodes& nodes, const Signals& signals, const std::string& point,
                   Timeout timeout) {
  using Clock = std::chrono::steady_clock;
  nodes.arrive_at(point);
  const auto deadline = Clock::now() + timeout;
  while (!nodes.all_at(point)) {
    RINGLET_CHECK(Clock::now() < deadline, "[run] not all nodes came to ", point, " within ",
                  std::chrono::duration<double>(timeout).count(), " s");
    pollfd entry{signals.fd().fd(), POLLIN, 0};
    poll(&entry, 1, kLauncherTick);
    if (const int number = signals.next(); number != 0) {
      nodes.stop(number);
      return number;
    }
  }
  return 0;
}

}  // namespace

JobEnd run_launcher(const LauncherOptions& options, std::ostream& out, std::ostream& err) {
  // Signals keep their usual effect until there are ranks to pass them on to.
  Nodes nodes(options);
  const Signals signals;
  adopt_orphans();
  struct Sweep {
    ~Sweep() { kill_children(); }
  } sweep;
  for (int attempt = 0;; ++attempt) {
    const JobEnd ended = Attempt(options, nodes, signals, attempt, {out, err}).run();
    kill_children();
    if (ended.code == 0 || ended.signal != 0 || attempt == options.max_restarts) return ended;
    const int number =
        wait_for_nodes(nodes, signals, str("ended/", attempt), options.grace + kInStep);
    if (number != 0) return {128 + number, number};
    err << "ringlet: starting all ranks again, attempt " << attempt + 1 << " of "
        << options.max_restarts << std::endl;
  }
}

}  // namespace ringlet::comm
