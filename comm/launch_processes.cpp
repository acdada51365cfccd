#include "ringlet/comm/launch_processes.h"

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

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks that can run end when they see the alarm; the remaining ones are killed after this time.
constexpr auto kGrace = std::chrono::seconds(3);

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

}  // namespace

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

}  // namespace ringlet::comm
