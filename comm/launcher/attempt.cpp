#include "ringlet/comm/launcher/attempt.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/launcher/first_failure.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

/// Time for ranks that receive the alarm to end by themselves: a signal would cut off their
/// message.
constexpr auto kHearing = std::chrono::seconds(3);
/// The longest grace after a failure: no rank has anything left to save.
constexpr Timeout kGraceOfFailure = std::chrono::seconds(5);

}  // namespace

Attempt::Attempt(const LauncherOptions& options, Nodes& nodes, const Signals& signals, int attempt,
                 Screen screen)
    : options_(options),
      nodes_(nodes),
      signals_(signals),
      attempt_(attempt),
      screen_(screen),
      alarm_(nodes.join_attempt(attempt)),
      ranks_(options, nodes, attempt, screen) {}

JobEnd Attempt::run() {
  while (!over()) {
    ranks_.wait(signals_, kLauncherTick);
    for (int number; (number = signals_.next()) != 0;) pass_on(number);
    ranks_.attend([&](LocalRank& rank) { end_of(rank); });
    if (!failed_ && alarm_->raised()) fail_because(alarm_->cause());
    if (!failed_ && nodes_.store().raised()) fail_because(nodes_.store().cause());
    if (!failed_ && !absent_.empty() && joined()) fail_because(absent_);
    hurry();
  }
  const auto none = [](const LocalRank&) { return false; };
  if (stopped_by_ != 0 || !failed_) ranks_.show_errors(none);
  if (stopped_by_ != 0) {
    nodes_.stop(stopped_by_);
    return {128 + stopped_by_, stopped_by_};
  }
  TcpStore& launchers = nodes_.store();
  if (launchers.raised()) launchers.raise(launchers.cause());  // a silent node may receive it later
  if (!failed_) return {};
  return {report_first_failure({attempt_, *alarm_, ranks_, done_, options_.grace + kInStep},
                               launchers, screen_.err)};
}

/// Handles the end of a rank of this node.
void Attempt::end_of(LocalRank& rank) {
  if (stopped_by_ != 0) return;
  const std::string end = str("rank ", rank.rank, " (pid ", rank.process.pid(), ", host ",
                              host_name(), ") ", rank.process.how_it_ended());
  if (*rank.exit_code != 0) {
    if (!failed_) fail_because(end);
    return;
  }
  if (!signalled_) done_.push_back(rank.rank);
  // A rank that joined and left has ended in order, as far as the launcher can tell; its peers
  // detect it if they still need that rank.
  if (!joined(rank.rank)) absent_ = str(end, " before it joined the group of all ranks");
}

bool Attempt::over() {
  if (!ranks_.all_ended()) return false;
  if (failed_ || stopped_by_ != 0) return true;
  const std::string point = str("done/", attempt_);
  if (!std::exchange(arrived_, true)) nodes_.arrive_at(point);
  return nodes_.all_at(point);
}

/// A signal to the launcher is passed on to the ranks; a second one becomes SIGKILL. The first is
/// sent only once: a rank that saves its state may end by the default action of a repetition.
void Attempt::pass_on(int number) {
  ranks_.send(stopped_by_ == 0 ? number : SIGKILL);
  if (stopped_by_ != 0) return;
  stopped_by_ = number;
  terminate_at_ = Clock::time_point::max();
  if (!failed_) kill_at_ = Clock::now() + options_.grace;
}

/// Ends the attempt on all nodes. The store decides which rank was first to fail.
void Attempt::fail_because(const std::string& seen) {
  failed_ = true;
  alarm_->raise(seen);
  if (stopped_by_ != 0) return;  // the ranks have their signal and their deadline
  terminate_at_ = Clock::now();
  if (joined()) terminate_at_ += kHearing;
  kill_at_ = terminate_at_ + std::min(options_.grace, kGraceOfFailure);
}

/// Whether this rank (by default any rank) has joined the store, and so receives its alarm.
bool Attempt::joined(std::optional<int> rank) const {
  try {
    return rank ? has_joined(*alarm_, *rank) : alarm_->add(kRanksThatJoined, 0) > 0;
  } catch (const Error&) {  // the store has ended: that is an alarm, too
    return true;
  }
}

void Attempt::hurry() {
  if (!failed_ && stopped_by_ == 0) return;
  const auto now = Clock::now();
  if (now >= terminate_at_) {
    ranks_.send(SIGTERM);
    signalled_ = true;
    terminate_at_ = Clock::time_point::max();
  }
  if (now >= kill_at_) ranks_.send(SIGKILL);
}

}  // namespace ringlet::comm
