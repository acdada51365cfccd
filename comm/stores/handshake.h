// Connections over which both sides prove that they know a token, before any other byte. Both
// nonces, C and S, are fresh:
//   client -> server   magic, id, C, sign("hello", id C)
//   server -> client   S, sign("server", C S)       only if the hello was signed with the token
//   client -> server   sign("client", C S)          proves that the hello was no recording
// A client that does not know the token receives no byte. Later bytes are neither secret nor
// signed.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/token.h"

namespace ringlet::comm {

inline constexpr std::string_view kMagic = "ringlet3";
inline constexpr std::size_t kId = sizeof(std::uint32_t);
inline constexpr std::size_t kNonce = 32;
inline constexpr std::size_t kHello = kMagic.size() + kId + kNonce + Token::kSigned;
inline constexpr std::size_t kChallenge = kNonce + Token::kSigned;
inline constexpr std::size_t kProof = Token::kSigned;
/// The server closes a connection when its handshake takes longer.
inline constexpr auto kHandshake = std::chrono::seconds(5);

/// The first message of a client.
std::string make_hello(const Token& token, std::uint32_t id, const std::string& nonce);

/// The client's side, with its `id` for the server. False, with the reason in `why`, if the server
/// closes the connection or does not answer in time. Error if it does not know the token. `check`
/// is called every 20 ms meanwhile, unless empty, and may throw.
bool prove_to_server(const Socket& socket, const Token& token, std::uint32_t id, Deadline deadline,
                     std::string& why, const std::function<void()>& check = {});

/// The server's side: a listener and its unauthenticated connections, each of at most kHello bytes.
/// If there are too many, the oldest are closed. Those with a valid hello, if perhaps a recorded
/// one, are counted separately: the others cannot crowd them out.
class Admission {
 public:
  /// Without a token it admits processes of this user only.
  Admission(Socket listener, Token token);

  int port() const { return local_port(listener_); }
  /// Appends the descriptors that serve() reads.
  void add_to(std::vector<pollfd>& polled) const;
  /// Whether serve() has deadlines: it must be called within 0.1 s.
  bool has_deadlines() const { return !candidates_.empty() || accept_again_ != Deadline(); }
  /// Accepts connections and continues handshakes, without waiting. `admit` receives each
  /// connection that has proved to know the token.
  void serve(const std::function<void(Socket socket, std::uint32_t id)>& admit);

 private:
  struct Candidate {
    Socket socket;
    Deadline deadline;
    std::string in = {};
    std::string nonces = {};  // C S, once its hello was valid
    std::uint32_t id = 0;
    bool gone = false;
  };

  void accept_some();
  void read(Candidate& one);
  void greet(Candidate& one);
  bool close_oldest(bool greeted, std::ptrdiff_t most);

  const Socket listener_;
  const Token token_;
  const std::ptrdiff_t most_;
  std::list<Candidate> candidates_;  // oldest first
  Deadline accept_again_ = {};       // no descriptors are left until then
};

}  // namespace ringlet::comm
