// Connections over which both sides prove that they know a token, before any other byte. Both
// nonces, C and S, are fresh:
//   client -> server   magic, id, C, sign("hello", id C)
//   server -> client   S, sign("server", C S)       only if the hello was signed with the token
//   client -> server   sign("client", C S)          proves that the hello was no recording
// A client that does not know the token receives no byte. Later bytes are neither secret nor
// signed.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/token.h"

namespace ringlet::comm {

inline constexpr std::string_view kMagic = "ringlet3";
inline constexpr std::size_t kId = sizeof(std::uint32_t);
inline constexpr std::size_t kNonce = 32;
inline constexpr std::size_t kHello = kMagic.size() + kId + kNonce + Token::kSigned;
inline constexpr std::size_t kChallenge = kNonce + Token::kSigned;
/// The server closes a connection when its handshake takes longer.
inline constexpr auto kHandshake = std::chrono::seconds(5);

/// The first message of a client.
std::string make_hello(const Token& token, std::uint32_t id, const std::string& nonce);

/// The client's side, with its `id` for the server. False, with the reason in `why`, if the server
/// closes the connection or does not answer in time. Error if it does not know the token.
bool prove_to_server(const Socket& socket, const Token& token, std::uint32_t id, Deadline deadline,
                     std::string& why);

/// The server's side: a thread that accepts, and one for each connection. If too many of them have
/// proved nothing, the oldest are closed; those with a valid hello, if perhaps a recorded one,
/// last.
class Acceptor {
 public:
  /// Called with each connection that has proved to know the token, and its id, on the connection's
  /// thread. The connection is closed when it returns, unless it has moved the socket away.
  using Serve = std::function<void(Socket& socket, std::uint32_t id)>;

  /// Without a token it serves processes of this user only.
  Acceptor(Socket listener, Token token, Serve serve);
  /// Waits for `serve` to return on all threads.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int port() const { return local_port(listener_); }

 private:
  enum class State : std::uint8_t { silent, greeted, proved, closing, ended };  // in this order
  struct Connection {
    Socket socket;
    State state = State::silent;
    std::thread thread = {};
  };

  void accept_all();
  void start(Socket socket);
  void attend(Connection& one);
  /// The id of a client that proves to know the token.
  std::optional<std::uint32_t> prove(Connection& one);
  /// False if it was closed before.
  bool advance(Connection& one, State state);
  /// Closes the oldest connection in this state; false if there is none.
  bool close_oldest(State state);

  const Socket listener_;
  const Token token_;
  const Serve serve_;
  std::mutex mutex_;
  std::list<Connection> connections_;  // oldest first
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ringlet::comm
