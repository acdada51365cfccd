#include "ringlet/comm/stores/handshake.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kExhausted = std::chrono::milliseconds(10);  // without accepts, for descriptors

/// Connections that have proved nothing. They leave descriptors for the ranks' pipes.
std::ptrdiff_t most_unproved() {
  rlimit files{};
  const bool known = getrlimit(RLIMIT_NOFILE, &files) == 0;
  return known ? static_cast<std::ptrdiff_t>(std::clamp<rlim_t>(files.rlim_cur / 8, 2, 256)) : 256;
}

}  // namespace

std::string make_hello(const Token& token, std::uint32_t id, const std::string& nonce) {
  const std::string signed_part = std::string(reinterpret_cast<const char*>(&id), kId) + nonce;
  return str(kMagic, signed_part, token.sign("hello", signed_part));
}

bool prove_to_server(const Socket& socket, const Token& token, std::uint32_t id, Deadline deadline,
                     std::string& why) {
  const std::string nonce = random_bytes(kNonce);
  send_until(socket, make_hello(token, id, nonce), deadline);
  const std::string challenge = receive_exactly(socket, kChallenge, deadline);
  if (challenge.size() < kChallenge) {
    why = errno == ETIMEDOUT
              ? "it accepts connections and says nothing"
              : "it closes the connection: its job token is another one (RINGLET_TOKEN)";
    return false;
  }
  const std::string nonces = nonce + challenge.substr(0, kNonce);
  if (!token.verifies(challenge.substr(kNonce), "server", nonces))
    fail("it is no store of this job: its answer is not signed with the token");
  return send_until(socket, token.sign("client", nonces), deadline) == Token::kSigned;
}

Acceptor::Acceptor(Socket listener, Token token, Serve serve)
    : listener_(std::move(listener)), token_(std::move(token)), serve_(std::move(serve)) {
  thread_ = start_thread([this] { accept_all(); });
}

Acceptor::~Acceptor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  shutdown(listener_.fd(), SHUT_RDWR);  // wakes the thread that accepts
  thread_.join();
  while (close_oldest(State::silent) || close_oldest(State::greeted)) continue;
  for (Connection& one : connections_) one.thread.join();
}

void Acceptor::accept_all() {
  while (wait_for(listener_, POLLIN, Deadline::max())) {
    Socket socket = accept_from(listener_);
    const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      connections_.remove_if([](Connection& one) {
        if (one.state == State::ended) one.thread.join();
        return one.state == State::ended;
      });
    }
    if (socket) {
      start(std::move(socket));
    } else if (exhausted) {  // accept() needs a descriptor even if no connection waits
      close_oldest(State::silent);
      std::this_thread::sleep_for(kExhausted);
    }
  }
}

void Acceptor::start(Socket socket) {
  std::unique_lock lock(mutex_);
  Connection& one = connections_.emplace_back(Connection{std::move(socket)});
  try {
    one.thread = start_thread([this, &one] { attend(one); });
  } catch (const std::system_error&) {  // the client tries again
    connections_.pop_back();
  }
  const std::ptrdiff_t unproved = std::ranges::count_if(
      connections_, [](const Connection& of) { return of.state < State::proved; });
  lock.unlock();
  if (unproved > most_unproved() && !close_oldest(State::silent)) close_oldest(State::greeted);
}

void Acceptor::attend(Connection& one) {
  try {
    if (const auto id = prove(one); id && advance(one, State::proved)) serve_(one.socket, *id);
  } catch (const std::exception&) {  // its client is told by the end of the connection
  }
  const std::lock_guard lock(mutex_);
  one.socket.close();
  one.state = State::ended;
}

// A wrong hello is refused as soon as it is seen to be wrong.
std::optional<std::uint32_t> Acceptor::prove(Connection& one) {
  const Deadline deadline = Clock::now() + kHandshake;
  if (receive_exactly(one.socket, kMagic.size(), deadline) != kMagic) return {};
  const std::string hello = receive_exactly(one.socket, kHello - kMagic.size(), deadline);
  const std::string signed_part = hello.substr(0, kId + kNonce);
  if (!token_.verifies(hello.substr(signed_part.size()), "hello", signed_part)) return {};
  // Any process of this host knows the key of an empty token.
  if (token_.empty() && !peer_is_this_user(one.socket)) return {};
  if (!advance(one, State::greeted)) return {};
  const std::string fresh = random_bytes(kNonce), nonces = signed_part.substr(kId) + fresh;
  send_until(one.socket, fresh + token_.sign("server", nonces), deadline);
  const std::string proof = receive_exactly(one.socket, Token::kSigned, deadline);
  if (!token_.verifies(proof, "client", nonces)) return {};
  std::uint32_t id = 0;
  std::memcpy(&id, signed_part.data(), kId);
  return id;
}

bool Acceptor::advance(Connection& one, State state) {
  const std::lock_guard lock(mutex_);
  if (one.state == State::closing) return false;
  one.state = state;
  return true;
}

bool Acceptor::close_oldest(State state) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(connections_, state, &Connection::state);
  if (found == connections_.end()) return false;
  shutdown(found->socket.fd(), SHUT_RDWR);  // wakes its thread
  found->state = State::closing;
  return true;
}

}  // namespace ringlet::comm
