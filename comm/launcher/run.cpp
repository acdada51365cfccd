#include <poll.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <ostream>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/comm/launcher/local_rank.h"
#include "ringlet/comm/launcher/signals.h"
#include "ringlet/comm/stores/tcp_store.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLaunchTick = 50;  // ms between two looks at the alarm
/// Time for ranks that receive the alarm to end by themselves: a signal would cut off their
/// message.
constexpr auto kHearing = std::chrono::seconds(3);
/// The longest grace after a failure: no rank has anything left to save.
constexpr Timeout kGraceOfFailure = std::chrono::seconds(5);

/// The store of an attempt's ranks, if this launcher keeps it, and its alarm.
class JobStore {
 public:
  JobStore(const LauncherOptions& options, const Token& token) : port_(options.master_port) {
    if (options.nnodes > 1) return;
    server_ = serve_tcp_store({.port = port_, .token = token});
    port_ = server_->port();
    alarm_ = join_tcp_store({.port = port_, .token = token, .name = "the launcher"});
  }

  int port() const { return port_; }
  bool raised() const { return alarm_ && alarm_->raised(); }
  /// The first failure, which is `seen` unless the store has an earlier one.
  Failure first_failure(const std::string& seen) const {
    if (!alarm_) return {seen, "", {}};
    if (!alarm_->raised()) alarm_->raise(seen);
    return {alarm_->cause(), alarm_->culprit(), {}};
  }
  /// Whether this rank (by default any rank) has joined the store, and so receives its alarm. On
  /// several hosts this is not known.
  bool joined(std::optional<int> rank = {}) const {
    try {
      return !alarm_ || (rank ? has_joined(*alarm_, *rank) : alarm_->add(kRanksThatJoined, 0) > 0);
    } catch (const Error&) {  // the store has ended: that is an alarm, too
      return true;
    }
  }

 private:
  int port_;
  std::unique_ptr<TcpStoreServer> server_;
  std::unique_ptr<TcpStore> alarm_;
};

/// Starts the ranks of this host, watches them, and ends them together.
class Run {
 public:
  Run(const LauncherOptions& options, int attempt, Signals& signals, std::ostream& out,
      std::ostream& err)
      : options_(options), signals_(signals), err_(err) {
    Token token = Token::from_environment();
    const bool is_new = token.empty() && options.nnodes == 1;
    if (is_new) token = Token::random();
    store_.emplace(options, token);
    ranks_ =
        start_ranks(options, {attempt, store_->port(), is_new ? token.secret() : ""}, out, err);
  }

  JobEnd run() {
    const auto ended = [](const LocalRank& rank) { return rank.exit_code.has_value(); };
    while (!std::ranges::all_of(ranks_, ended)) {
      wait();
      while (const int signal = signals_.next()) pass_on(signal);
      for (LocalRank& rank : ranks_)
        if (rank.attend()) end_of(rank);
      if (!failure_ && store_->raised()) fail_because("");
      if (!failure_ && !absent_.empty() && store_->joined()) fail_because(absent_);
      hurry();
    }
    if (stopped_by_ == 0 && failure_) {
      failure_->done = done_;
      return {report_failure(*failure_, ranks_, err_)};
    }
    for (LocalRank& rank : ranks_) rank.show_errors();
    return stopped_by_ == 0 ? JobEnd() : JobEnd{128 + stopped_by_, stopped_by_};
  }

  /// After run(): the ranks that a signal has killed, other than this launcher's SIGTERM.
  int lost() const {
    return static_cast<int>(std::ranges::count_if(ranks_, [&](const LocalRank& rank) {
      const int signal = rank.process.killed_by();
      return signal != 0 && !(signalled_ && signal == SIGTERM);
    }));
  }

 private:
  /// Waits until a rank prints or ends, or a signal has come, at most a tick.
  void wait() {
    std::vector<pollfd> polled{{signals_.fd().fd(), POLLIN, 0}};
    for (LocalRank& rank : ranks_) {  // poll() ignores descriptors that are closed: -1
      polled.push_back({rank.exit_code ? -1 : rank.process.end().fd(), POLLIN, 0});
      polled.push_back({rank.process.out().fd(), POLLIN, 0});
      polled.push_back({rank.process.err().fd(), POLLIN, 0});
    }
    poll(polled.data(), polled.size(), kLaunchTick);
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
    if (!failure_) kill_at_ = Clock::now() + options_.grace;
  }

  void end_of(const LocalRank& rank) {
    if (stopped_by_ != 0) return;
    const std::string end = str("rank ", rank.rank, " (pid ", rank.process.pid(), ", host ",
                                host_name(), ") ", rank.process.how_it_ended());
    if (*rank.exit_code != 0) {
      if (!failure_) fail_because(end);
      return;
    }
    if (!signalled_) done_.push_back(rank.rank);
    // A rank that joined and left has ended in order, as far as the launcher can tell; its peers
    // detect it if they still need that rank.
    if (!store_->joined(rank.rank)) absent_ = str(end, " before it joined the group of all ranks");
  }

  void fail_because(const std::string& seen) {
    failure_ = store_->first_failure(seen);
    if (stopped_by_ != 0) return;  // the ranks have their signal and their deadline
    terminate_at_ = Clock::now();
    if (store_->joined()) terminate_at_ += kHearing;
    kill_at_ = terminate_at_ + std::min(options_.grace, kGraceOfFailure);
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

  const LauncherOptions& options_;
  Signals& signals_;
  std::ostream& err_;
  std::optional<JobStore> store_;
  std::vector<LocalRank> ranks_;
  std::optional<Failure> failure_;
  bool signalled_ = false;  // the ranks have been sent SIGTERM
  int stopped_by_ = 0;      // signal; 0: none
  std::vector<int> done_;   // ranks that exited with 0 before any signal
  std::string absent_;      // describes one of them that joined no group; empty: none
  Deadline terminate_at_ = Deadline::max();
  Deadline kill_at_ = Deadline::max();
};

}  // namespace

JobEnd run_launcher(const LauncherOptions& options, std::ostream& out, std::ostream& err) {
  Signals signals;
  adopt_orphans();
  struct Sweep {
    ~Sweep() { kill_children(); }
  } sweep;
  LauncherOptions now = options;
  for (int attempt = 0;; ++attempt) {
    JobEnd ended;
    {
      Run run(now, attempt, signals, out, err);
      ended = run.run();
      if (options.min_ranks > 0) now.nproc_per_node -= run.lost();
    }
    kill_children();
    if (ended.code == 0 || ended.signal != 0 || attempt == options.max_restarts) return ended;
    if (const int signal = signals.next(); signal != 0) return {128 + signal, signal};
    const int left = now.nproc_per_node;
    if (left < options.min_ranks) {
      err << "ringlet: " << left << " of " << options.nproc_per_node
          << " ranks are left, expected at least --min-ranks " << options.min_ranks << std::endl;
      return ended;
    }
    err << "ringlet: starting "
        << (left == options.nproc_per_node ? "all ranks"
                                           : str(left, " of ", options.nproc_per_node, " ranks"))
        << " again, attempt " << attempt + 1 << " of " << options.max_restarts << std::endl;
  }
}

}  // namespace ringlet::comm
