// Ctrl-C: a run that is told to end does so in order.
#pragma once

#include <array>
#include <csignal>

namespace ringlet::cli {

/// While one lives, SIGINT, SIGTERM and SIGHUP are noted and do nothing else. A SIGINT that comes
/// over a second after the first ends the program. A signal that was ignored before, as under
/// nohup, stays so.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// The signal that came; 0: none.
  int caught() const;
  /// The same, unless a terminal sent it, and to this program's children just as well.
  int caught_alone() const;

 private:
  std::array<struct sigaction, 3> former_{};
};

}  // namespace ringlet::cli
