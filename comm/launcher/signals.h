// Signals that would end this process, read from a descriptor.
#pragma once

#include <csignal>
#include <string>

#include "ringlet/comm/stores/socket.h"

namespace ringlet::comm {

/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGQUIT have no effect by themselves.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Readable once a signal has come.
  const Socket& fd() const { return fd_; }
  /// The next signal that has come; 0: none.
  int next() const;

 private:
  sigset_t set_;
  sigset_t before_;
  void (*pipe_before_)(int);
  Socket fd_;
};

/// "SIGTERM"
std::string signal_name(int number);

}  // namespace ringlet::comm
