#include "ringlet/comm/launch.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>

#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// The store's keys of the first failed rank's message, and of whether its input was to blame.
constexpr const char* kFailure = "failure";
constexpr const char* kBadInput = "bad input";

// Ranks that can run end when they see the alarm; the remaining ones are killed after this time.
constexpr auto kGrace = std::chrono::seconds(3);

/// The ranks of one launch(), and the first failure among them.
struct Launch {
  const std::function<void(const Group&)>& rank_main;
  int size;
  const GroupOptions& options;
  std::shared_ptr<Store> store = make_memory_store();

  /// Runs a rank to its end; false after a failure.
  bool run(int rank) const noexcept;
  /// A failure ends the other ranks.
  void record(int rank, const char* what, bool is_input) const noexcept;
  /// Throws the first failure, if there is one.
  void rethrow() const;
};

bool Launch::run(int rank) const noexcept {
  // Destroyed after the alarm is raised: it waits for transfers that no peer may meet.
  std::optional<Group> group;
  try {
    rank_main(group.emplace(store, rank, size, options));
    return true;
  } catch (const std::exception& error) {
    record(rank, error.what(), dynamic_cast<const InputError*>(&error) != nullptr);
  } catch (...) {
    record(rank, "an exception that is no std::exception", false);
  }
  return false;
}

void Launch::record(int rank, const char* what, bool is_input) const noexcept {
  try {
    // An alarm raised earlier is the cause of this rank's end, too.
    const std::string cause = of_rank(rank, what);
    const bool is_first = store->add(kFailure, 1) == 1;  // before the alarm, by which others fail
    store->raise(cause);
    const std::string first = store->cause();  // perhaps cut
    if (is_input && !first.empty() && cause.starts_with(first)) store->add(kBadInput, 1);
    if (is_first) store->set(kFailure, what);
  } catch (const Error&) {  // the store is full: the cause is enough
    store->raise(of_rank(rank, what));
  }
}

void Launch::rethrow() const {
  if (!store->raised()) return;
  std::string message = store->cause();
  bool is_input = false;
  try {
    is_input = store->add(kBadInput, 0) > 0;
    // The first failed rank's message may go on where the cause ends: with where the rank was.
    if (store->add(kFailure, 0) > 0)
      if (const std::string what = store->get(kFailure, Timeout::zero()); what.starts_with(message))
        message = what;
  } catch (const Error&) {  // the store is full, or the rank was killed before it set its message
  }
  if (is_input) throw InputError(message);
  throw Error(message);
}

void launch_threads(const Launch& launch) {
  std::vector<std::thread> ranks;
  try {
    for (int rank = 0; rank < launch.size; ++rank)
      ranks.push_back(start_thread([&launch, rank] { launch.run(rank); }));
  } catch (const std::system_error& error) {  // started ranks must not wait for missing ones
    launch.record(static_cast<int>(ranks.size()), error.what(), false);
  }
  for (std::thread& rank : ranks) rank.join();
}

// The whole life of a rank, on the parent's stack: no exception may leave it.
[[noreturn]] void run_rank(const Launch& launch, int rank, pid_t parent) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  bool done = false;
  try {
    backend(DeviceType::cpu).own_inherited_memory();
    done = launch.run(rank);
  } catch (const Error& error) {
    launch.record(rank, error.what(), false);
  }
  std::fflush(nullptr);
  _exit(done ? 0 : 1);
}

// The children that have not ended yet.
class Children {
 public:
  explicit Children(const Launch& launch) : launch_(launch) {}
  ~Children() {
    send(SIGKILL);
    while (!children_.empty()) wait_for_one(100);
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void start(int rank) {
    const pid_t parent = getpid(), process = fork();
    RINGLET_CHECK(process >= 0, "[launch] rank ", rank,
                  " cannot be forked: ", std::strerror(errno));
    if (process == 0) run_rank(launch_, rank, parent);
    const auto ended = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    children_.push_back({rank, process, ended});
    RINGLET_CHECK(ended >= 0, "[launch] pidfd_open: ", std::strerror(errno));
  }

  bool empty() const { return children_.empty(); }

  /// Waits until a child ends, at most for so many milliseconds.
  void wait_for_one(int milliseconds) {
    std::vector<pollfd> descriptors;
    for (const Child& child : children_) descriptors.push_back({child.ended, POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), milliseconds);
    std::erase_if(children_, [&](const Child& child) {
      int status = 0;
      const pid_t waited = waitpid(child.process, &status, WNOHANG);
      if (waited == 0) return false;
      close(child.ended);
      if (waited == child.process) judge(child.rank, status);
      return true;
    });
  }

  /// A rank that has the signal from its process group, too, recognises this one by SI_QUEUE.
  void send(int signal) {
    for (const Child& child : children_) sigqueue(child.process, signal, {});
  }

 private:
  struct Child {
    int rank;
    pid_t process;
    int ended;  // readable once it has ended
  };

  void judge(int rank, int status) {
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      launch_.store->raise(
          str("rank ", rank, " was killed by signal ", signal, " (", strsignal(signal), ")"));
    } else if (WEXITSTATUS(status) != 0) {
      launch_.store->raise(str("rank ", rank, " exited with code ", WEXITSTATUS(status)));
    }
  }

  const Launch& launch_;
  std::vector<Child> children_;
};

// Names a rank that was killed, and kills the remaining ranks some seconds after the group has
// failed.
void launch_processes(const Launch& launch, const std::function<int()>& signal) {
  Children children(launch);
  std::fflush(nullptr);  // otherwise every child would write it, too
  for (int rank = 0; rank < launch.size; ++rank) children.start(rank);

  auto deadline = Clock::time_point::max();
  int sent = 0;
  while (!children.empty()) {
    children.wait_for_one(100);
    if (signal && sent == 0 && (sent = signal()) != 0) children.send(sent);
    if (launch.store->raised()) deadline = std::min(deadline, Clock::now() + kGrace);
    if (Clock::now() > deadline) children.send(SIGKILL);
  }
}

}  // namespace

void launch(const std::function<void(const Group&)>& rank_main, int n, LaunchOptions options) {
  RINGLET_CHECK(n > 0, "[launch] of ", n, " ranks");
  const bool threads = options.ranks == Ranks::threads;
  const Launch launch{rank_main, n, options.group};
  threads ? launch_threads(launch) : launch_processes(launch, options.signal);
  launch.rethrow();
}

}  // namespace ringlet::comm
