// Signals that would end this process, read like input.
#pragma once

#include <csignal>
#include <string>

#include "ringlet/comm/stores/socket.h"

namespace ringlet::comm {

/// SIGINT, SIGTERM, SIGHUP and SIGQUIT do nothing by themselves while this lives.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Readable once one has come.
  const Socket& fd() const { return fd_; }
  /// The next one that has come; 0: none.
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
