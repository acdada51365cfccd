#include "ringlet/comm/launcher/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cstring>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {

Signals::Signals() {
  sigemptyset(&set_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set_, number);
  pthread_sigmask(SIG_BLOCK, &set_, &before_);
  pipe_before_ = std::signal(SIGPIPE, SIG_IGN);  // a closed terminal does not end the job
  fd_ = Socket(signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC));
  RINGLET_CHECK(fd_, "[run] no signalfd");
}

Signals::~Signals() {
  std::signal(SIGPIPE, pipe_before_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int Signals::next() const {
  signalfd_siginfo info{};
  return read(fd_.fd(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? str("SIG", name) : str("signal ", number);
}

}  // namespace ringlet::comm
