// Signals that would end this process, read from a descriptor.
#pragma once

#include <chrono>
#include <csignal>
#include <string>

#include "ringlet/comm/stores/socket.h"

namespace ringlet::comm {

/// The signals among SIGINT, SIGHUP and SIGQUIT that this process ignores: nohup starts it so.
sigset_t ignored_signals();

/// A signal that comes again within this time is a copy: timeout(1) signals a child and its group.
inline constexpr std::chrono::seconds kCopies{1};

/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGQUIT have no effect by themselves. Ignored ones
/// stay so.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Readable once a signal has come.
  const Socket& fd() const { return fd_; }
  /// The next signal that has come; 0: none.
  int next();

 private:
  sigset_t set_;
  sigset_t before_;
  void (*pipe_before_)(int);
  Socket fd_;
  int last_ = 0;
  std::chrono::steady_clock::time_point last_at_{};
};

/// "SIGTERM"
std::string signal_name(int number);

}  // namespace ringlet::comm
