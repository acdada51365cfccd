#include <poll.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <list>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/comm/launcher/cores.h"
#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/comm/launcher/local_rank.h"
#include "ringlet/comm/launcher/signals.h"
#include "ringlet/comm/stores/tcp_store.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRefusedInput = 2;  // exit code
constexpr int kLaunchTick = 50;   // ms between two looks at the alarm
constexpr int kFormTick = 5;      // the same while ranks wait for a new world
/// Time for ranks that receive the alarm to end by themselves: a signal would cut off their
/// message.
constexpr auto kHearing = std::chrono::seconds(3);
/// The longest grace after a failure: no rank has anything left to save.
constexpr Timeout kGraceOfFailure = std::chrono::seconds(5);

/// The store of an attempt's ranks, if this launcher keeps it, and its alarm.
class JobStore {
 public:
  JobStore(const LauncherOptions& options, const Token& token, int port) : port_(port) {
    if (options.nnodes > 1) return;
    server_ = serve_tcp_store({.port = port_, .token = token});
    port_ = server_->port();
    alarm_ = join_tcp_store({.port = port_, .token = token, .name = "the launcher"});
  }

  int port() const { return port_; }
  /// Tells the ranks where the next world has its store, once; -1: there is none.
  void name_next(int port) {
    if (alarm_ && !std::exchange(named_, true)) alarm_->add(kPortOfNextWorld, port);
  }
  bool named() const { return named_; }
  void set_ranks(const std::string& ranks) const { alarm_->set(kRanksOfWorld, ranks); }
  bool raised() const { return alarm_ && alarm_->raised(); }
  /// The first failure, which is `seen` unless the store has an earlier one.
  Failure first_failure(const std::string& seen) const {
    if (!alarm_) return {seen, "", {}};
    if (!alarm_->raised()) alarm_->raise(seen);
    return {alarm_->cause(), alarm_->culprit(), {}};
  }
  /// Whether this rank, or `least` ranks, have joined the store, and so receive its alarm. On
  /// several hosts this is not known.
  bool joined(std::optional<int> rank = {}, int least = 1) const {
    try {
      return !alarm_ ||
             (rank ? has_joined(*alarm_, *rank) : alarm_->add(kRanksThatJoined, 0) >= least);
    } catch (const Error&) {  // the store has ended: that is an alarm, too
      return true;
    }
  }

 private:
  int port_;
  bool named_ = false;
  std::unique_ptr<TcpStoreServer> server_;
  std::unique_ptr<TcpStore> alarm_;
};

/// Starts the ranks of this host, watches them, and ends them together.
class Run {
 public:
  Run(const LauncherOptions& options, int ranks_at_start, int attempt, Signals& signals,
      std::ostream& out, std::ostream& err)
      : options_(options),
        signals_(signals),
        out_(out),
        err_(err),
        token_(Token::from_environment()),
        restarts_(attempt) {
    const bool is_new = token_.empty() && options.nnodes == 1;
    if (is_new) token_ = Token::random();
    stores_.emplace_back(options, token_, options.master_port);
    const int ranks = options.nproc_per_node;
    const auto any = std::vector<std::vector<int>>(static_cast<std::size_t>(ranks));
    attempt_ = {attempt, store().port(), is_new ? token_.secret() : "", ranks_at_start,
                options.pin ? share_cores(ranks) : any};
    for (int i = 0; i < ranks; ++i) ranks_.push_back(start_rank(options, attempt_, i, out, err));
  }

  JobEnd run() {
    const auto ended = [](const LocalRank& rank) { return rank.exit_code.has_value(); };
    while (!std::ranges::all_of(ranks_, ended)) {
      wait();
      while (const int signal = signals_.next()) pass_on(signal);
      for (LocalRank& rank : ranks_)
        if (rank.attend()) end_of(rank);
      if (!failure_ && store().raised()) fail_because("");
      if (!failure_ && !absent_.empty() && store().joined()) fail_because(absent_);
      bring_back();
      if (forming_) form();
      hurry();
    }
    const bool alarmed = stopped_by_ == 0 && failure_;
    // A connection may break, and raise the alarm, when all ranks have what they need.
    if (alarmed && done_.size() < ranks_.size()) {
      failure_->done = done_;
      return {report_failure(*failure_, ranks_, err_)};
    }
    for (LocalRank& rank : ranks_) rank.show_errors();
    if (alarmed)
      err_ << "ringlet: " << failure_->cause << "; all ranks exited with code 0" << std::endl;
    return stopped_by_ == 0 ? JobEnd() : JobEnd{128 + stopped_by_, stopped_by_};
  }

  /// After run(): the ranks that a signal has killed, other than this launcher's SIGTERM.
  int lost() const {
    return static_cast<int>(std::ranges::count_if(ranks_, [&](const LocalRank& rank) {
      const int signal = rank.process.killed_by();
      return signal != 0 && !(signalled_ && signal == SIGTERM);
    }));
  }
  /// Ranks ended with the exit code of bad input before one joined: they would again.
  bool refused(const JobEnd& ended) { return ended.code == kRefusedInput && !store().joined(); }
  /// The job's restarts so far, those that went on in the same processes included.
  int restarts() const { return restarts_; }

 private:
  JobStore& store() { return stores_.back(); }
  /// Waits until a rank prints or ends, or a signal has come, at most a tick.
  void wait() {
    std::vector<pollfd> polled{{signals_.fd().fd(), POLLIN, 0}};
    for (LocalRank& rank : ranks_) {  // poll() ignores descriptors that are closed: -1
      polled.push_back({rank.exit_code ? -1 : rank.process.end().fd(), POLLIN, 0});
      polled.push_back({rank.process.out().fd(), POLLIN, 0});
      polled.push_back({rank.process.err().fd(), POLLIN, 0});
    }
    poll(polled.data(), polled.size(), forming_ ? kFormTick : kLaunchTick);
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
    if (rank.rank == newcomer_) return end_of_newcomer(end);
    if (*rank.exit_code != 0) {
      const bool killed = rank.process.killed_by() != 0;
      const bool left_out = forming_ && killed && !store().joined(rank.rank);
      if (killed) lost_.push_back(rank.rank);
      if (left_out && forming_->cause.empty()) forming_->cause = end;
      if (!failure_ && !left_out) fail_because(end, !killed);
      return;
    }
    if (!signalled_) done_.push_back(rank.rank);
    // A rank that joined and left has ended in order, as far as the launcher can tell; its peers
    // detect it if they still need that rank. A world that forms does without it.
    if (!forming_ && !store().joined(rank.rank))
      absent_ = str(end, " before it joined the group of all ranks");
  }

  /// `exited`: it is the error of a rank that ran to its end, so that no other rank can go on.
  void fail_because(const std::string& seen, bool exited = false) {
    const bool known = forming_ && !forming_->cause.empty();
    const Failure failure = known ? *forming_ : store().first_failure(seen);
    const bool goes_on = !exited && options_.min_ranks > 0 && stopped_by_ == 0 &&
                         restarts_ < options_.max_restarts && store().joined();
    if (goes_on) return begin_world(failure);
    fail(failure);
  }

  void fail(Failure failure) {  // a copy: it may be the one of forming_
    failure_ = std::move(failure);
    forming_.reset();
    if (options_.min_ranks > 0) {
      for (JobStore* const ends : {&store(), waiting_ ? &*waiting_ : nullptr}) {
        if (!ends) continue;
        ends->first_failure(failure_->cause);
        ends->name_next(-1);
      }
    }
    if (stopped_by_ != 0) return;  // the ranks have their signal and their deadline
    terminate_at_ = Clock::now();
    if (store().joined()) terminate_at_ += kHearing;
    kill_at_ = terminate_at_ + std::min(options_.grace, kGraceOfFailure);
  }

  // ---- a world of the ranks that are left

  /// Ranks that call regroup_from_env() go on to a new store; the others end.
  void begin_world(const Failure& failure) {
    JobStore& ended = store();
    if (waiting_ && waiting_->joined())
      use_waiting();
    else
      stores_.emplace_back(options_, token_, /*port=*/0);
    ended.name_next(store().port());
    begin_forming(failure);
  }

  /// `failure` has no cause where a rank joins.
  void begin_forming(const Failure& failure) {
    forming_ = failure;
    form_by_ = Clock::now() + options_.grace;
  }

  void form() {
    std::string ranks;
    int left = 0;
    bool complete = true, back = false;
    for (const LocalRank& rank : ranks_) {
      if (rank.exit_code || rank.rank == newcomer_) continue;
      if (store().joined(rank.rank)) {
        ranks += str(rank.rank, ' ');
        ++left;
        back = back || rank.rank == joining_;
      } else {
        complete = false;
        if (Clock::now() >= form_by_) rank.process.signal(SIGKILL);
      }
    }
    if (!complete || failure_) return;
    const std::string cause = forming_->cause;
    const bool restarts = !cause.empty();
    if (left < options_.min_ranks || (restarts && restarts_ == options_.max_restarts))
      return fail(*forming_);
    err_ << "ringlet: " << cause << (back && !restarts ? "a killed rank is back" : "")
         << (back || restarts ? "; " : "") << "going on with " << left << " of " << ranks_.size()
         << " ranks";
    if (restarts) err_ << ", restart " << ++restarts_ << " of " << options_.max_restarts;
    err_ << std::endl;
    forming_.reset();
    store().set_ranks(ranks);
  }

  // ---- a killed rank that comes back: it joins a store at which the next world will be formed

  void bring_back() {
    if (failure_ || forming_ || stopped_by_ != 0) return;
    const bool may_come = done_.empty() && restarts_ < options_.max_restarts;
    if (!waiting_ && may_come && !lost_.empty()) return start_newcomer();
    if (!waiting_) return;
    if (!may_come) {
      if (newcomer_) place_of(*newcomer_)->process.signal(SIGKILL);
      waiting_.reset();
    } else if (waiting_->joined({}, 2)) {  // the running ranks have left their world
      use_waiting();
      begin_forming({});
    } else if (newcomer_ && !store().named() && waiting_->joined()) {
      err_ << "ringlet: rank " << *newcomer_ << " waits to join again" << std::endl;
      store().name_next(waiting_->port());
    }
  }

  void start_newcomer() {
    newcomer_ = lost_.front();
    lost_.pop_front();
    waiting_.emplace(options_, token_, /*port=*/0);
    attempt_.number = restarts_;
    attempt_.port = waiting_->port();
    attempt_.joins = true;
    try {
      LocalRank rank = start_rank(options_, attempt_, *newcomer_, out_, err_);
      const auto old = place_of(*newcomer_);
      ranks_.insert(old, std::move(rank));
      ranks_.erase(old);
    } catch (const Error& error) {
      end_of_newcomer(str("rank ", *newcomer_, ": ", error.what()));
    }
  }

  std::list<LocalRank>::iterator place_of(int rank) {
    return std::ranges::find(ranks_, rank, &LocalRank::rank);
  }

  /// It is not started again. Ranks that were told of its store come there and form a world anew.
  void end_of_newcomer(const std::string& end) {
    newcomer_.reset();
    if (!waiting_) return;
    if (!store().named()) waiting_.reset();
    err_ << "ringlet: " << end << " before it joined; going on without it" << std::endl;
  }

  /// The next world has the store of the rank that waits, and that rank.
  void use_waiting() {
    stores_.push_back(std::move(*waiting_));
    waiting_.reset();
    joining_ = std::exchange(newcomer_, {});
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
  std::ostream& out_;
  std::ostream& err_;
  Token token_;
  int restarts_;
  Attempt attempt_;
  std::deque<JobStore> stores_;  // of all worlds so far: ranks may still say goodbye
  std::list<LocalRank> ranks_;
  std::optional<Failure> forming_;  // the end of the last world, until the next one is complete
  std::deque<int> lost_;            // killed ranks that have not been started anew
  std::optional<int> newcomer_;     // the rank that was, until the others come to its store
  std::optional<int> joining_;      // the rank that they met there, if it had not ended
  std::optional<JobStore> waiting_;
  Deadline form_by_{};
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
    bool again = true;
    {
      Run run(now, options.nproc_per_node, attempt, signals, out, err);
      ended = run.run();
      again = !run.refused(ended);
      attempt = run.restarts();
      if (options.min_ranks > 0) now.nproc_per_node -= run.lost();
    }
    kill_children();
    if (ended.code == 0 || ended.signal != 0 || !again) return ended;
    if (attempt == options.max_restarts) {
      if (attempt > 0)
        err << "ringlet: --max-restarts " << attempt << " is used up: not started again"
            << std::endl;
      return ended;
    }
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
