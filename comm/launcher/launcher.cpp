#include "ringlet/comm/launcher/launcher.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <ostream>
#include <utility>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/launcher/cores.h"
#include "ringlet/comm/launcher/nodes.h"
#include "ringlet/comm/launcher/output.h"
#include "ringlet/comm/launcher/process.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// How often a launcher looks at the alarm and at the other nodes.
constexpr int kTick = 50;  // ms
/// Ranks that hear the alarm end by themselves, with a message that a signal would cut off.
constexpr auto kHearing = std::chrono::seconds(3);
/// Nodes end an attempt within their grace of each other.
constexpr auto kInStep = std::chrono::seconds(30);

/// Signals that would end this process, read like input while this lives.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    pipe_before_ = std::signal(SIGPIPE, SIG_IGN);  // a screen that is gone does not end the job
    fd_ = Socket(signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC));
    RINGLET_CHECK(fd_, "[run] no signalfd");
  }
  ~Signals() {
    std::signal(SIGPIPE, pipe_before_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  const Socket& fd() const { return fd_; }
  /// The next one that has come; 0: none.
  int next() const {
    signalfd_siginfo info{};
    return read(fd_.fd(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo)
                                                               : 0;
  }

 private:
  sigset_t set_;
  sigset_t before_;
  void (*pipe_before_)(int);
  Socket fd_;
};

std::string stopped_by(const Nodes& nodes, int signal) {
  return concat("the launcher of node ", nodes.node_rank(), " was stopped by ",
                signal_name(signal));
}

/// One rank of this node.
struct Rank {
  int rank;
  Process process;
  RankStream out;
  RankStream err;
  bool out_open = true;
  bool err_open = true;
  std::optional<int> exit_code = {};
};

/// How an attempt ended.
struct Ended {
  int code = 0;
  int signal = 0;  // that stopped the launcher
};

/// "rank 12 (pid …" -> 12
std::optional<int> rank_named_first(const std::string& text) {
  constexpr std::string_view kRank = "rank ";
  if (text.rfind(kRank, 0) != 0) return std::nullopt;
  return std::atoi(text.c_str() + kRank.size());
}

/// All ranks of this node, once.
class Attempt {
 public:
  Attempt(const LauncherOptions& options, Nodes& nodes, const Signals& signals, int attempt,
          std::ostream& out, std::ostream& err)
      : options_(options),
        nodes_(nodes),
        signals_(signals),
        attempt_(attempt),
        screen_{out, err},
        alarm_(nodes.join_attempt(attempt)) {
    start_ranks();
  }

  Ended run() {
    while (!over()) {
      wait();
      for (int number; (number = signals_.next()) != 0;) pass_on(number);
      for (Rank& rank : ranks_) attend(rank);
      if (!failed_ && alarm_->raised()) fail_because(alarm_->cause());
      if (!failed_ && nodes_.broken()) fail_because(nodes_.cause());
      hurry();
    }
    if (stopped_by_ != 0) {
      nodes_.stop(stopped_by(nodes_, stopped_by_));
      return {128 + stopped_by_, stopped_by_};
    }
    return failed_ ? Ended{report()} : Ended{};
  }

 private:
  struct Screen {
    std::ostream& out;
    std::ostream& err;
  };

  // ---- start ------------------------------------------------------------------------------------

  void start_ranks() {
    const auto n = static_cast<std::size_t>(options_.nproc_per_node);
    std::vector<std::vector<int>> processors(n);
    if (options_.pin) processors = share_cores(options_.nproc_per_node);
    ranks_.reserve(n);
    for (std::size_t i = 0; i < n; ++i) {
      const int rank = nodes_.first_rank() + static_cast<int>(i);
      const std::string prefix = nodes_.world_size() > 1 ? concat('[', rank, "] ") : "";
      const bool files = !options_.log_dir.empty();
      const Streams shown = !files                    ? Streams{true, true}
                            : i < options_.tee.size() ? options_.tee[i]
                                                      : Streams{};
      const auto folder = options_.log_dir / concat("attempt_", attempt_) / concat("rank_", rank);
      const auto stream = [&](bool show, std::ostream& screen, const char* file) {
        return RankStream(prefix, show ? &screen : nullptr, files ? folder / file : "",
                          screen_.err);
      };
      RankStream out = stream(shown.out, screen_.out, "stdout.log");
      RankStream err = stream(shown.err, screen_.err, "stderr.log");
      ranks_.push_back({rank,
                        Process({.command = options_.command,
                                 .environment = environment(static_cast<int>(i)),
                                 .processors = processors[i],
                                 .input = rank == 0 && isatty(STDIN_FILENO) == 0}),
                        std::move(out), std::move(err)});
    }
  }

  /// torchrun's variables, and those that init_from_env() looks for.
  std::map<std::string, std::string> environment(int local_rank) const {
    const auto text = [](int number) { return std::to_string(number); };
    const int rank = nodes_.first_rank() + local_rank;
    const std::string world = text(nodes_.world_size());
    std::map<std::string, std::string> variables{
        {"RANK", text(rank)},
        {"LOCAL_RANK", text(local_rank)},
        {"WORLD_SIZE", world},
        {"LOCAL_WORLD_SIZE", text(options_.nproc_per_node)},
        {"GROUP_RANK", text(nodes_.node_rank())},
        {"GROUP_WORLD_SIZE", text(options_.nnodes)},
        {"ROLE_RANK", text(rank)},
        {"ROLE_WORLD_SIZE", world},
        {"ROLE_NAME", "default"},
        {"MASTER_ADDR", options_.master_addr},
        {"MASTER_PORT", text(nodes_.port())},
        {"TORCHELASTIC_RESTART_COUNT", text(attempt_)},
        {"TORCHELASTIC_MAX_RESTARTS", text(options_.max_restarts)},
        {"TORCHELASTIC_RUN_ID", options_.run_id},
        {"RINGLET_PORT", text(nodes_.port())},
        {"RINGLET_LAUNCHER", "1"},
    };
    if (nodes_.token_is_new()) variables["RINGLET_TOKEN"] = nodes_.token().secret();
    return variables;
  }

  // ---- watch ------------------------------------------------------------------------------------

  void wait() const {
    std::vector<pollfd> polled{{signals_.fd().fd(), POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      if (!rank.exit_code) polled.push_back({rank.process.end().fd(), POLLIN, 0});
      if (rank.out_open) polled.push_back({rank.process.out().fd(), POLLIN, 0});
      if (rank.err_open) polled.push_back({rank.process.err().fd(), POLLIN, 0});
    }
    poll(polled.data(), polled.size(), kTick);
  }

  void attend(Rank& rank) {
    drain(rank);
    if (rank.exit_code) return;
    rank.exit_code = rank.process.exit_code();
    if (!rank.exit_code) return;
    drain(rank);  // its last words
    rank.out.finish();
    rank.err.finish();
    if (*rank.exit_code != 0 && !failed_ && stopped_by_ == 0)
      fail_because(concat("rank ", rank.rank, " (pid ", rank.process.pid(), ", host ", host_name(),
                          ") ", rank.process.how_it_ended()));
  }

  static void drain(Rank& rank) {
    if (rank.out_open) rank.out_open = rank.out.pump(rank.process.out().fd());
    if (rank.err_open) rank.err_open = rank.err.pump(rank.process.err().fd());
  }

  /// The attempt has failed, on all nodes; which rank was first, the store knows.
  void fail_because(const std::string& seen) {
    failed_ = true;
    alarm_->raise(seen);
    root_ = rank_named_first(alarm_->culprit());
    if (!root_) root_ = rank_named_first(alarm_->cause());
    terminate_at_ = Clock::now();
    if (ranks_listen()) terminate_at_ += kHearing;
    kill_at_ = terminate_at_ + options_.grace;
  }

  /// Whether ranks have joined the store, and so heard the alarm.
  bool ranks_listen() const {
    try {
      return alarm_->add(kRanksThatJoined, 0) > 0;
    } catch (const Error&) {  // the store is gone: that is an alarm, too
      return true;
    }
  }

  /// A signal to the launcher is one to the ranks; the second one means at once.
  void pass_on(int number) {
    send(stopped_by_ == 0 ? number : SIGKILL);
    if (stopped_by_ != 0) return;
    stopped_by_ = number;
    terminate_at_ = Clock::now() + options_.grace / 2;
    kill_at_ = Clock::now() + options_.grace;
  }

  void hurry() {
    if (!failed_ && stopped_by_ == 0) return;
    const auto now = Clock::now();
    if (now >= terminate_at_) {
      send(SIGTERM);
      terminate_at_ = Clock::time_point::max();
    }
    if (now >= kill_at_) send(SIGKILL);
  }

  void send(int number) const {
    for (const Rank& rank : ranks_)
      if (!rank.exit_code) rank.process.signal(number);
  }

  /// The ranks of this node have ended; and, unless the job has failed, those of all nodes.
  bool over() {
    for (const Rank& rank : ranks_)
      if (!rank.exit_code) return false;
    if (failed_ || stopped_by_ != 0) return true;
    const std::string point = concat("done/", attempt_);
    if (!std::exchange(arrived_, true)) nodes_.arrive_at(point);
    return nodes_.all_at(point);
  }

  // ---- the end ----------------------------------------------------------------------------------

  Rank* root_here() {
    for (Rank& rank : ranks_)
      if (rank.rank == root_) return &rank;
    return nullptr;
  }

  /// Prints who was first to fail and what it last said; the job's exit code.
  int report() {
    Rank* root = root_here();
    const int code = root != nullptr ? tell_exit_code(*root) : root_ ? ask_for_exit_code() : 1;
    const std::string cause = alarm_->cause();
    const bool named = !root_ || rank_named_first(cause) == root_;
    screen_.err << "ringlet: first to fail: " << (named ? "" : concat("rank ", *root_, ": "))
                << cause;
    if (root != nullptr && alarm_->culprit().rfind("rank ", 0) == 0)
      screen_.err << "; it " << root->process.how_it_ended();
    screen_.err << '\n';
    if (root != nullptr) print_tail(*root);
    screen_.err.flush();
    return code;
  }

  int tell_exit_code(const Rank& root) {
    const int code = *root.exit_code != 0 ? *root.exit_code : 1;
    try {
      nodes_.tell(concat("exit/", attempt_), std::to_string(code));
    } catch (const Error&) {  // the store is gone, and with it those that would ask
    }
    return code;
  }

  int ask_for_exit_code() {
    try {
      return std::stoi(nodes_.ask(concat("exit/", attempt_), options_.grace + kInStep));
    } catch (const Error&) {  // its launcher is gone as well
      return 1;
    }
  }

  void print_tail(const Rank& root) const {
    const auto& lines = root.err.tail().empty() ? root.out.tail() : root.err.tail();
    if (lines.empty()) return;
    screen_.err << "ringlet: the last lines of rank " << root.rank << ":\n";
    for (const std::string& line : lines) screen_.err << "  " << line << '\n';
  }

  const LauncherOptions& options_;
  Nodes& nodes_;
  const Signals& signals_;
  const int attempt_;
  const Screen screen_;
  std::unique_ptr<TcpStore> alarm_;
  std::vector<Rank> ranks_;
  bool failed_ = false;
  bool arrived_ = false;
  int stopped_by_ = 0;
  std::optional<int> root_;
  Clock::time_point terminate_at_ = Clock::time_point::max();
  Clock::time_point kill_at_ = Clock::time_point::max();
};

/// Nodes start the next attempt together: until then an old rank could meet a new one. The signal
/// that came meanwhile; 0: all are here.
int wait_for_nodes(Nodes& nodes, const Signals& signals, const std::string& point,
                   Timeout timeout) {
  nodes.arrive_at(point);
  const auto deadline = Clock::now() + timeout;
  while (!nodes.all_at(point)) {
    RINGLET_CHECK(Clock::now() < deadline, "[run] not all nodes came to ", point, " within ",
                  std::chrono::duration<double>(timeout).count(), " s");
    pollfd entry{signals.fd().fd(), POLLIN, 0};
    poll(&entry, 1, kTick);
    if (const int number = signals.next(); number != 0) {
      nodes.stop(stopped_by(nodes, number));
      return number;
    }
  }
  return 0;
}

}  // namespace

int run_launcher(const LauncherOptions& options, std::ostream& out, std::ostream& err) {
  // Until there are ranks to pass them on to, signals do to this process what they always do.
  Nodes nodes(options);
  const Signals signals;
  adopt_orphans();
  struct Sweep {
    ~Sweep() { kill_children(); }
  } sweep;
  for (int attempt = 0;; ++attempt) {
    const Ended ended = Attempt(options, nodes, signals, attempt, out, err).run();
    kill_children();
    if (ended.code == 0 || ended.signal != 0 || attempt == options.max_restarts) return ended.code;
    const int number =
        wait_for_nodes(nodes, signals, concat("ended/", attempt), options.grace + kInStep);
    if (number != 0) return 128 + number;
    err << "ringlet: starting all ranks again, attempt " << attempt + 1 << " of "
        << options.max_restarts << std::endl;
  }
}

}  // namespace ringlet::comm
