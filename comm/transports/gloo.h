// The parts of the gloo transport.
#pragma once

#include <gloo/common/error.h>
#include <gloo/context.h>

#include <csignal>

#include "ringlet/comm/membership.h"

namespace ringlet::comm {

/// Connects every rank with every peer.
std::shared_ptr<::gloo::Context> connect_gloo(const Membership& membership);

std::unique_ptr<Engine> make_gloo_engine(const Membership& membership,
                                         std::shared_ptr<::gloo::Context> context);

/// Records in the store that this rank leaves the group, before its connections close.
void record_left(const Membership& membership) noexcept;
/// Throws, and ends the group, if `rank` has called record_left().
void check_left(const Membership& membership, const std::string& where, int rank);

/// While it lives, a connection that the peer has closed gives this thread an error and no SIGPIPE,
/// which would end the program. Threads that are started in this time inherit that.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &former_);
  }
  ~NoSigpipe() {
    const timespec at_once{};
    if (!sigismember(&former_, SIGPIPE))
      while (sigtimedwait(&pipe_, nullptr, &at_once) > 0) continue;
    pthread_sigmask(SIG_SETMASK, &former_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_, former_;
};

}  // namespace ringlet::comm
