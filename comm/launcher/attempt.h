// One attempt of the job on this node: starts the ranks, watches them, and ends them together.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/comm/launcher/local_ranks.h"
#include "ringlet/comm/launcher/nodes.h"
#include "ringlet/comm/launcher/signals.h"
#include "ringlet/comm/stores/tcp_client.h"

namespace ringlet::comm {

/// How often a launcher checks the alarm and the other nodes.
inline constexpr int kLauncherTick = 50;  // ms
/// Nodes end an attempt within their grace plus this time of each other.
inline constexpr auto kInStep = std::chrono::seconds(30);

class Attempt {
 public:
  Attempt(const LauncherOptions& options, Nodes& nodes, const Signals& signals, int attempt,
          Screen screen);
  /// Returns once this node's ranks have ended and, unless the job has failed, those of all nodes.
  JobEnd run();

 private:
  using Clock = std::chrono::steady_clock;

  bool over();
  void pass_on(int number);
  void end_of(LocalRank& rank);
  void fail_because(const std::string& seen);
  bool joined(std::optional<int> rank = {}) const;
  void hurry();

  const LauncherOptions& options_;
  Nodes& nodes_;
  const Signals& signals_;
  const int attempt_;
  const Screen screen_;
  std::unique_ptr<TcpStore> alarm_;
  LocalRanks ranks_;
  bool failed_ = false;
  bool arrived_ = false;
  bool signalled_ = false;  // the ranks have been sent SIGTERM
  int stopped_by_ = 0;
  std::vector<int> done_;  // ranks that exited with 0 before any signal
  std::string absent_;     // describes one of them that joined no group; empty: none
  Clock::time_point terminate_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();
};

}  // namespace ringlet::comm
