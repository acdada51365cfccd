// The handshake of a TCP store: a client is unauthenticated until it has proved to know the token.
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
  /// InputError if it cannot listen, or would listen beyond loopback without a token.
  explicit TcpDoor(const TcpStoreServerOptions& options);

  int port() const { return local_port(listener_); }
  /// Appends the descriptors to be polled.
  void poll_into(std::vector<pollfd>& polled) const;
  /// The next deadline of a client, or the time of the next accept.
  Deadline next_due() const;
  /// Reads from the clients that poll() found readable and accepts new ones; `events` are the
  /// entries that poll_into() appended. Calls let_in with the socket of each client that has proved
  /// to know the token.
  void serve(const pollfd* events, const std::function<void(Socket)>& let_in);

 private:
  /// An unauthenticated client. It costs at most kHello bytes.
  struct Stranger {
    Socket socket;
    Deadline deadline;
    std::string in = {};
    std::string nonces = {};  // C S, once the hello was valid
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
  Strangers guests_;  // with a valid hello; their proof is pending
  Deadline accept_again_{};
};

}  // namespace ringlet::comm
