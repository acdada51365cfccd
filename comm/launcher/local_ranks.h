// The ranks of this node in one attempt: their processes and their output.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <vector>

#include "ringlet/comm/launcher/job.h"
#include "ringlet/comm/launcher/nodes.h"
#include "ringlet/comm/launcher/output.h"
#include "ringlet/comm/launcher/process.h"
#include "ringlet/comm/launcher/signals.h"

namespace ringlet::comm {

struct LocalRank {
  int rank;
  Process process;
  RankStream out;
  RankStream err;
  bool out_open = true;
  bool err_open = true;
  std::optional<int> exit_code = {};
};

struct Screen {
  std::ostream& out;
  std::ostream& err;
};

class LocalRanks {
 public:
  /// Starts them. InputError if the program or a log cannot be opened.
  LocalRanks(const LauncherOptions& options, const Nodes& nodes, int attempt, Screen screen);

  /// Waits until one prints or ends or a signal has come, at most for so many milliseconds.
  void wait(const Signals& signals, int milliseconds) const;
  /// Passes on their output; calls `ended` with each rank that has ended since the last call.
  void attend(const std::function<void(LocalRank&)>& ended);
  bool all_ended() const;
  /// Sends a signal to the ranks that run.
  void send(int number) const;
  /// Shows the errors that ended them, but for those that `hidden` chooses.
  void show_errors(const std::function<bool(const LocalRank&)>& hidden);
  /// The one of this rank in the world; null where it is another node's.
  const LocalRank* find(std::optional<int> rank) const;

 private:
  std::vector<LocalRank> ranks_;
};

}  // namespace ringlet::comm
