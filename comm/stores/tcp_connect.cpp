#include "ringlet/comm/stores/tcp_protocol.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// A flooded server may close any unauthenticated connection; after this time the token is wrong.
constexpr auto kClosedInHandshake = std::chrono::seconds(3);
constexpr auto kFirstNap = std::chrono::milliseconds(5);
constexpr auto kLongestNap = std::chrono::milliseconds(200);

/// Proves that this side knows the token, and checks that the server does.
bool shake_hands(const Socket& socket, const Token& token, Deadline deadline, std::string& why) {
  const std::string nonce = random_bytes(kNonce);
  why = "it closes the connection: its job token is another one (RINGLET_TOKEN)";
  send_until(socket, str(kMagic, nonce, token.sign("hello", nonce)), deadline);
  const std::string challenge = receive_exactly(socket, kChallenge, deadline);
  if (challenge.size() < kChallenge) {
    if (Clock::now() >= deadline) why = "it accepts connections and says nothing";
    return false;
  }
  const std::string nonces = nonce + challenge.substr(0, kNonce);
  if (!token.verifies(challenge.substr(kNonce), "server", nonces))
    fail("it is no store of this job: its answer is not signed with the token");
  return send_until(socket, token.sign("client", nonces), deadline) == kProof;
}

}  // namespace

void require_token_beyond_loopback(const std::string& host, const Token& token) {
  if (token.empty() && (host.empty() || !is_loopback(host)))
    fail_input("RINGLET_TOKEN: expected a secret that all hosts know (or RINGLET_TOKEN_FILE), as ",
               host.empty() ? "*" : host, " accepts connections of any host");
}

Socket connect_to_store(const std::string& host, int port, const Token& token, Timeout timeout,
                        std::function<void(const std::string& why)> on_wait) {
  require_token_beyond_loopback(host, token);
  const std::string store = str("[store] ", host, ':', port, ": ");
  const Deadline deadline = Clock::now() + timeout;
  const Deadline patience = Clock::now() + kPatience;
  std::optional<Deadline> refused_until;
  for (auto nap = kFirstNap;; nap = std::min(2 * nap, kLongestNap)) {
    std::string why;
    Socket socket = connect_to(host, port, on_wait ? std::min(deadline, patience) : deadline, why);
    if (socket) {
      try {
        if (shake_hands(socket, token, std::min(deadline, Clock::now() + kHandshake), why))
          return socket;
      } catch (const Error& error) {
        fail(store, error.what());
      }
      if (!refused_until) refused_until = Clock::now() + kClosedInHandshake;
    }
    const auto now = Clock::now();
    if (socket && now >= *refused_until) fail(store, why);
    if (now >= deadline) fail(store, "no answer within ", seconds_of(timeout), " s: ", why);
    if (on_wait && now >= patience) std::exchange(on_wait, nullptr)(why);
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace ringlet::comm
