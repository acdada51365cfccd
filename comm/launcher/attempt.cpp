#include <poll.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/launcher/local_rank.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// Time for ranks that receive the alarm to end by themselves: a signal would cut off their
/// message.
constexpr auto kHearing = std::chrono::seconds(3);
/// The longest grace after a failure: no rank has anything left to save.
constexpr Timeout kGraceOfFailure = std::chrono::seconds(5);

class Attempt {
 public:
  Attempt(Job& job, int number)
      : job_(job),
        number_(number),
        alarm_(job.nodes.join_attempt(number)),
        ranks_(start_ranks(job, number)) {}

  JobEnd run() {
    while (!over()) {
      wait();
      while (const int signal = job_.signals.next()) pass_on(signal);
      for (LocalRank& rank : ranks_)
        if (rank.attend()) end_of(rank);
      for (const TcpStore* store : {alarm_.get(), &job_.nodes.store()})
        if (!failed_ && store->raised()) fail_because(store->cause());
      if (!failed_ && !absent_.empty() && joined()) fail_because(absent_);
      hurry();
    }
    return end();
  }

 private:
  bool over() {
    const auto ended = [](const LocalRank& rank) { return rank.exit_code.has_value(); };
    if (!std::all_of(ranks_.begin(), ranks_.end(), ended)) return false;
    if (failed_ || stopped_by_ != 0) return true;
    const std::string point = str("done/", number_);
    if (!std::exchange(arrived_, true)) job_.nodes.arrive_at(point);
    return job_.nodes.all_at(point);
  }

  /// Waits until a rank prints or ends, or a signal has come, at most a tick.
  void wait() {
    std::vector<pollfd> polled{{job_.signals.fd().fd(), POLLIN, 0}};
    for (LocalRank& rank : ranks_) {  // poll() ignores descriptors that are closed: -1
      polled.push_back({rank.exit_code ? -1 : rank.process.end().fd(), POLLIN, 0});
      polled.push_back({rank.process.out().fd(), POLLIN, 0});
      polled.push_back({rank.process.err().fd(), POLLIN, 0});
    }
    poll(polled.data(), polled.size(), kLauncherTick);
  }

  void send(int signal) const {
    for (const LocalRank& rank : ranks_)
      if (!rank.exit_code) rank.process.signal(signal);
  }

  /// A signal to the launcher is passed on to the ranks; a second one becomes SIGKILL. The first is
  /// sent only once: a rank that saves its state may end by the default action of a repetition.
  void pass_on(int signal) {
    send(stopped_by_ == 0 ? signal : SIGKILL);
    if (stopped_by_ != 0) return;
    stopped_by_ = signal;
    terminate_at_ = Deadline::max();
    if (!failed_) kill_at_ = Clock::now() + job_.options.grace;
  }

  /// Handles the end of a rank of this node.
  void end_of(const LocalRank& rank) {
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

  /// Ends the attempt on all nodes. The store decides which rank was first to fail.
  void fail_because(const std::string& seen) {
    failed_ = true;
    alarm_->raise(seen);
    if (stopped_by_ != 0) return;  // the ranks have their signal and their deadline
    terminate_at_ = Clock::now();
    if (joined()) terminate_at_ += kHearing;
    kill_at_ = terminate_at_ + std::min(job_.options.grace, kGraceOfFailure);
  }

  /// Whether this rank (by default any rank) has joined the store, and so receives its alarm.
  bool joined(std::optional<int> rank = {}) const {
    try {
      return rank ? has_joined(*alarm_, *rank) : alarm_->add(kRanksThatJoined, 0) > 0;
    } catch (const Error&) {  // the store has ended: that is an alarm, too
      return true;
    }
  }

  void hurry() {
    const auto now = Clock::now();
    if (now >= terminate_at_) {
      send(SIGTERM);
      signalled_ = true;
      terminate_at_ = Deadline::max();
    }
    if (now >= kill_at_) send(SIGKILL);
  }

  JobEnd end() {
    TcpStore& launchers = job_.nodes.store();
    if (stopped_by_ == 0 && launchers.raised())
      launchers.raise(launchers.cause());  // a silent node may receive it later
    if (stopped_by_ == 0 && failed_)
      return {report_first_failure(job_, number_, *alarm_, ranks_, done_)};
    for (LocalRank& rank : ranks_) rank.show_errors();
    if (stopped_by_ == 0) return {};
    job_.nodes.stop(stopped_by_);
    return {128 + stopped_by_, stopped_by_};
  }

  Job& job_;
  const int number_;
  std::unique_ptr<TcpStore> alarm_;
  std::vector<LocalRank> ranks_;
  bool failed_ = false;
  bool arrived_ = false;
  bool signalled_ = false;  // the ranks have been sent SIGTERM
  int stopped_by_ = 0;      // signal; 0: none
  std::vector<int> done_;   // ranks that exited with 0 before any signal
  std::string absent_;      // describes one of them that joined no group; empty: none
  Deadline terminate_at_ = Deadline::max();
  Deadline kill_at_ = Deadline::max();
};

}  // namespace

JobEnd run_attempt(Job& job, int attempt) { return Attempt(job, attempt).run(); }

}  // namespace ringlet::comm
