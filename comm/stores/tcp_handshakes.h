// The handshake of a TCP store: a client is unauthenticated until it has proved to know the token.
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "ringlet/comm/store.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/token.h"

namespace ringlet::comm {

/// Used by one thread, which polls.
class TcpHandshakes {
 public:
  /// A client has `patience` for its proof; of more than `most` clients the oldest is closed.
  TcpHandshakes(Socket listener, Token token, Timeout patience, std::size_t most);

  int port() const { return local_port(listener_); }
  /// Appends the descriptors to be polled.
  void poll_into(std::vector<pollfd>& polled) const;
  /// The next deadline of a client, or the time of the next accept.
  Deadline next_due() const;
  /// Reads from the clients that poll() found readable and accepts new ones; `events` are the
  /// entries that poll_into() appended. Calls on_accepted with the socket of each client that has
  /// proved to know the token.
  void serve(const pollfd* events, const std::function<void(Socket)>& on_accepted);

 private:
  /// An unauthenticated client. It costs at most kHello bytes.
  struct Client {
    Socket socket;
    Deadline deadline;
    std::string in = {};
    std::string nonces = {};  // C S, once the hello was valid
  };
  using Clients = std::list<Client>;  // oldest, and so first due, first
  using OnAccepted = std::function<void(Socket)>;
  enum class Message { partial, valid, invalid };

  bool accepting() const;
  void accept_some(const OnAccepted& on_accepted);
  void push(Clients& list, Client&& client);
  void receive_from(Clients& list, Clients::iterator client, const OnAccepted& on_accepted);
  Message check_hello(Client& client) const;
  Message check_proof(const Client& client) const;
  void close_late_clients();

  const Socket listener_;
  const Token token_;
  const Timeout patience_;
  const std::size_t most_;
  Clients new_clients_;
  Clients greeted_;  // with a valid hello; their proof is pending
  Deadline accept_again_{};
};

}  // namespace ringlet::comm
