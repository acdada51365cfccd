#include "ringlet/comm/launcher/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ringlet/comm/launcher/signals.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

constexpr int kSweeps = 5000;  // ms, for children that hang in the kernel
constexpr const char* kChildren = "/proc/thread-self/children";

struct Pipe {
  Socket read;
  Socket write;
};

Pipe make_pipe() {
  int ends[2];
  RINGLET_CHECK(pipe2(ends, O_CLOEXEC) == 0, "[run] no pipe: ", std::strerror(errno));
  return {Socket(ends[0]), Socket(ends[1])};
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + '=' + value);
  return all;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

/// The child's data, made before fork(): between fork and exec nothing may allocate.
struct Start {
  std::vector<char*> argv;
  std::vector<char*> envp;
  cpu_set_t processors;
  sigset_t ignored;  // as under nohup
  bool input;
  pid_t parent;
  int out;
  int err;
  int report;  // gets the program's process id, or -errno
};

void report(const Start& start, int result) {
  static_cast<void>(!write(start.report, &result, sizeof(result)));
}

[[noreturn]] void give_up(const Start& start) {
  report(start, -errno);
  _exit(127);
}

void mask_signals(bool all) {
  sigset_t set;
  all ? sigfillset(&set) : sigemptyset(&set);
  sigprocmask(SIG_SETMASK, &set, nullptr);
}

[[noreturn]] void become(const Start& start, pid_t guard) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(start);
  if (getppid() != guard) _exit(127);
  for (const int number : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD})
    ::signal(number, sigismember(&start.ignored, number) == 1 ? SIG_IGN : SIG_DFL);
  mask_signals(false);
  if (!start.input) {
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0) give_up(start);
  }
  if (dup2(start.out, STDOUT_FILENO) < 0 || dup2(start.err, STDERR_FILENO) < 0) give_up(start);
  if (CPU_COUNT(&start.processors) > 0 &&
      sched_setaffinity(0, sizeof(start.processors), &start.processors) != 0)
    give_up(start);
  execvpe(start.argv[0], start.argv.data(), start.envp.data());
  give_up(start);
}

/// Ends this process with the status of its child.
[[noreturn]] void end_like(const siginfo_t& child) {
  if (child.si_code == CLD_EXITED) _exit(child.si_status);
  prctl(PR_SET_DUMPABLE, 0);  // the child has left a core file, if any
  ::signal(child.si_status, SIG_DFL);
  sigset_t own;  // only this one: another pending signal must not come first
  sigemptyset(&own);
  sigaddset(&own, child.si_status);
  sigprocmask(SIG_UNBLOCK, &own, nullptr);
  kill(getpid(), child.si_status);
  _exit(128 + child.si_status);
}

/// The life of a guard: it waits for the end of the program, or of the launcher. It holds no
/// descriptor of the launcher, and accepts no signal but SIGCHLD and SIGHUP.
[[noreturn]] void guard(const Start& start) {
  mask_signals(true);
  sigset_t heard;
  sigemptyset(&heard);
  for (const int number : {SIGCHLD, SIGHUP}) {
    sigaddset(&heard, number);
    ::signal(number, SIG_DFL);
  }
  if (setpgid(0, 0) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
      prctl(PR_SET_PDEATHSIG, SIGHUP) != 0)
    give_up(start);
  const pid_t self = getpid(), program = fork();
  if (program < 0) give_up(start);
  if (program == 0) become(start, self);
  report(start, program);
  closefrom(0);
  while (getppid() == start.parent) {
    siginfo_t child{};
    while (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0 && child.si_pid != 0) {
      if (child.si_pid == program) end_like(child);
      waitpid(std::exchange(child.si_pid, 0), nullptr, 0);
    }
    sigwaitinfo(&heard, nullptr);
  }
  kill_children();
  kill(0, SIGKILL);  // the group, this process included
  _exit(1);
}

/// How a child ended, without reaping it; si_pid is 0 while it runs.
siginfo_t end_status(pid_t child) {
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
  return info;
}

}  // namespace

Process::Process(const ProcessOptions& options) {
  const std::vector<std::string> environment = merged_environment(options.environment);
  Pipe out = make_pipe(), err = make_pipe(), results = make_pipe();
  Start start{pointers(options.command),
              pointers(environment),
              {},
              ignored_signals(),
              options.input,
              getpid(),
              out.write.fd(),
              err.write.fd(),
              results.write.fd()};
  CPU_ZERO(&start.processors);
  for (const int cpu : options.processors) CPU_SET(cpu, &start.processors);

  guard_ = fork();
  RINGLET_CHECK(guard_ >= 0, "[run] no process: ", std::strerror(errno));
  if (guard_ == 0) guard(start);
  setpgid(guard_, guard_);  // the guard does the same; the earlier call counts
  results.write.close();
  for (int result = 0; read(results.read.fd(), &result, sizeof(result)) == sizeof(result);) {
    pid_ = result;
    if (result > 0) continue;
    waitpid(guard_, nullptr, 0);
    fail_input(options.command[0], ": cannot start: ", std::strerror(-result));
  }
  end_ = Socket(static_cast<int>(syscall(SYS_pidfd_open, guard_, 0)));
  RINGLET_CHECK(end_, "[run] no pidfd: ", std::strerror(errno));
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  for (const Socket* stream : {&out_, &err_}) fcntl(stream->fd(), F_SETFL, O_NONBLOCK);
}

Process::~Process() {
  // The guard is not reaped yet, so its process id still means this group and no other.
  if (!end_) return;
  signal(SIGKILL);
  pollfd ended{end_.fd(), POLLIN, 0};
  poll(&ended, 1, kSweeps);  // it may hang in the kernel
  waitpid(guard_, nullptr, WNOHANG);
}

std::optional<int> Process::exit_code() const {
  const siginfo_t info = end_status(guard_);
  if (info.si_pid == 0) return std::nullopt;
  return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

int Process::killed_by() const {
  const siginfo_t info = end_status(guard_);
  return info.si_code == CLD_EXITED ? 0 : info.si_status;
}

std::string Process::how_it_ended() const {
  const siginfo_t info = end_status(guard_);
  return info.si_code == CLD_EXITED ? str("exited with code ", info.si_status)
                                    : str("was killed by ", signal_name(info.si_status));
}

void Process::signal(int number) const { kill(-guard_, number); }

void adopt_orphans() {
  RINGLET_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "[run] subreaper: ", std::strerror(errno));
  RINGLET_CHECK(access(kChildren, R_OK) == 0, "[run] ", kChildren, ": ", std::strerror(errno));
}

// Killed children's own children become ours: repeats until there are none.
void kill_children() {
  for (int round = 0; round < kSweeps; ++round) {
    char text[4096];
    const int list = open(kChildren, O_RDONLY | O_CLOEXEC);
    const ssize_t n = list < 0 ? 0 : read(list, text, sizeof(text) - 1);
    if (list >= 0) close(list);
    text[std::max<ssize_t>(n, 0)] = '\0';
    char* at = text;
    // A number that the buffer cuts off is left to the next round.
    for (char* end = nullptr; (end = std::strchr(at, ' ')) != nullptr; at = end + 1)
      kill(static_cast<pid_t>(std::strtol(at, nullptr, 10)), SIGKILL);
    pid_t ended = 0;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) continue;
    if (ended < 0) return;  // there are no children
    usleep(1000);
  }
}

}  // namespace ringlet::comm
