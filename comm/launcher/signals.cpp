#include "ringlet/comm/launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cstring>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {

sigset_t ignored_signals() {
  sigset_t ignored;
  sigemptyset(&ignored);
  for (const int number : {SIGINT, SIGHUP, SIGQUIT}) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN)
      sigaddset(&ignored, number);
  }
  return ignored;
}

Signals::Signals() {
  sigemptyset(&set_);
  const sigset_t ignored = ignored_signals();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    if (sigismember(&ignored, number) == 0) sigaddset(&set_, number);
  pthread_sigmask(SIG_BLOCK, &set_, &before_);
  pipe_before_ = std::signal(SIGPIPE, SIG_IGN);  // a closed terminal does not end the job
  fd_ = Socket(signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC));
  RINGLET_CHECK(fd_, "[run] no signalfd");
}

Signals::~Signals() {
  std::signal(SIGPIPE, pipe_before_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int Signals::next() {
  signalfd_siginfo info{};
  while (read(fd_.fd(), &info, sizeof(info)) == sizeof(info)) {
    const auto now = std::chrono::steady_clock::now();
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == last_ && now < last_at_ + kCopies) continue;
    last_at_ = now;
    return last_ = signal;
  }
  return 0;
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? str("SIG", name) : str("signal ", number);
}

}  // namespace ringlet::comm
