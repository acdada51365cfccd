// The way into a TCP store: everybody is a stranger here until they have proved to know the token.
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_server.h"

namespace ringlet::comm {

/// Used by one thread, which polls.
class TcpDoor {
 public:
  /// InputError where it cannot listen, or would listen beyond loopback without a token.
  explicit TcpDoor(const TcpStoreServerOptions& options);

  int port() const { return local_port(listener_); }
  /// Appends what is to be polled.
  void poll_into(std::vector<pollfd>& polled) const;
  /// When somebody's time is up.
  Deadline next_due() const;
  /// Hears those that poll() found to speak, `events` being what poll_into() appended, and opens to
  /// new ones. Calls let_in with the socket of each who has proved to know the token.
  void serve(const pollfd* events, const std::function<void(Socket)>& let_in);

 private:
  /// Costs at most kHello bytes.
  struct Stranger {
    Socket socket;
    Deadline deadline;
    std::string in = {};
    std::string nonces = {};  // C S, once the hello was good
  };
  using Strangers = std::list<Stranger>;  // oldest, and so first due, first
  using LetIn = std::function<void(Socket)>;
  enum class Heard { part, all, wrong };

  bool accepting() const;
  void accept_some(const LetIn& let_in);
  void push(Strangers& list, Stranger&& stranger);
  void hear(Strangers& list, Strangers::iterator stranger, const LetIn& let_in);
  Heard hear_hello(Stranger& stranger) const;
  Heard hear_proof(const Stranger& stranger) const;
  void close_the_slow();

  const TcpStoreServerOptions options_;
  Socket listener_;
  Strangers strangers_;
  Strangers guests_;  // whose hello was good; they owe the proof
  Deadline accept_again_{};
};

}  // namespace ringlet::comm
