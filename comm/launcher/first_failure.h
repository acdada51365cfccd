// Which rank of the job was first to fail, and the report about it.
#pragma once

#include <iosfwd>
#include <vector>

#include "ringlet/comm/launcher/local_ranks.h"
#include "ringlet/comm/stores/tcp_client.h"

namespace ringlet::comm {

struct FailedAttempt {
  int attempt;
  const TcpStore& alarm;
  LocalRanks& ranks;
  const std::vector<int>& done;  // ranks of this node that exited with 0 by themselves
  Timeout patience;              // how long to wait for the node where it ran
};

/// Prints which rank was first to fail, the local ranks that had exited with 0 and, on its node,
/// its last lines. Bad input (code 2) is two lines: the rank's and this one; peers with the same
/// error are not shown. Returns the job's exit code: that rank's, on all nodes.
int report_first_failure(const FailedAttempt& failed, TcpStore& launchers, std::ostream& err);

}  // namespace ringlet::comm
