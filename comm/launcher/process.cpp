#include "ringlet/comm/launcher/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "ringlet/comm/launcher/signals.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

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

/// What the child needs, made before fork(): between fork and exec nothing may allocate.
struct Start {
  std::vector<char*> argv;
  std::vector<char*> envp;
  cpu_set_t processors;
  bool pin;
  bool input;
  pid_t parent;
  int out;
  int err;
  int report;  // errno goes there if the program does not start
};

[[noreturn]] void become(const Start& start) {
  const auto give_up = [&] {
    const int error = errno;
    static_cast<void>(!write(start.report, &error, sizeof(error)));
    _exit(127);
  };
  if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up();
  if (getppid() != start.parent) _exit(127);  // it ended before it could be heard of
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD})
    ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!start.input) {
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0) give_up();
  }
  if (dup2(start.out, STDOUT_FILENO) < 0 || dup2(start.err, STDERR_FILENO) < 0) give_up();
  if (start.pin && sched_setaffinity(0, sizeof(start.processors), &start.processors) != 0)
    give_up();
  execvpe(start.argv[0], start.argv.data(), start.envp.data());
  give_up();
  _exit(127);
}

void set_nonblocking(const Socket& socket) {
  fcntl(socket.fd(), F_SETFL, fcntl(socket.fd(), F_GETFL) | O_NONBLOCK);
}

/// Takes a killed child off the system's list. One that hangs in the kernel is not waited for.
void reap(pid_t child) {
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (waitpid(child, nullptr, WNOHANG) == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// The children of this process, by /proc.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    // "77 (any name) S 76 …": the parent follows the state.
    const std::size_t end = text.rfind(')');
    if (end == text.npos || end + 4 > text.size()) continue;
    if (std::atoi(text.c_str() + end + 4) == getpid()) found.push_back(std::stoi(name));
  }
  return found;
}

}  // namespace

Process::Process(const ProcessOptions& options) {
  const std::vector<std::string> environment = merged_environment(options.environment);
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe report = make_pipe();
  Start start{pointers(options.command),
              pointers(environment),
              {},
              !options.processors.empty(),
              options.input,
              getpid(),
              out.write.fd(),
              err.write.fd(),
              report.write.fd()};
  CPU_ZERO(&start.processors);
  for (const int cpu : options.processors) CPU_SET(cpu, &start.processors);

  pid_ = fork();
  RINGLET_CHECK(pid_ >= 0, "[run] no process: ", std::strerror(errno));
  if (pid_ == 0) become(start);
  setpgid(pid_, pid_);  // whoever is first; afterwards the group can be killed
  report.write.close();
  int error = 0;
  if (read(report.read.fd(), &error, sizeof(error)) == sizeof(error)) {
    waitpid(std::exchange(pid_, -1), nullptr, 0);
    fail_input(options.command[0], ": cannot start: ", std::strerror(error));
  }
  end_ = Socket(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  RINGLET_CHECK(end_, "[run] no pidfd: ", std::strerror(errno));
  out_ = std::move(out.read);
  err_ = std::move(err.read);
  set_nonblocking(out_);
  set_nonblocking(err_);
}

Process::~Process() {
  // Not reaped before, so its number still means this group and no other.
  if (!end_) return;
  signal(SIGKILL);
  reap(pid_);
}

std::optional<int> Process::exit_code() const {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return std::nullopt;
  return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

std::string Process::how_it_ended() const {
  const int code = exit_code().value_or(0);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  return info.si_code == CLD_EXITED ? concat("exited with code ", code)
                                    : concat("was killed by ", signal_name(code - 128));
}

void Process::signal(int number) const { kill(-pid_, number); }

void adopt_orphans() {
  RINGLET_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "[run] subreaper: ", std::strerror(errno));
}

void kill_children() {
  // A killed child's own children become ours, so this goes on until there are none.
  for (int round = 0; round < 100; ++round) {
    const std::vector<pid_t> all = children();
    if (all.empty()) return;
    for (const pid_t child : all) kill(child, SIGKILL);
    for (const pid_t child : all) reap(child);
  }
}

}  // namespace ringlet::comm
