#include "ringlet/comm/stores/tcp_door.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ringlet/comm/stores/tcp_protocol.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAcceptsPerRound = 64;  // so that a flood of connections waits, not the ranks
/// The pause before the next accept after the system ran out of descriptors.
constexpr auto kExhausted = std::chrono::milliseconds(100);

Socket open_listener(const TcpStoreServerOptions& options) {
  require_token_beyond_loopback(options.host, options.token);
  return listen_at(options.host, options.port);
}

}  // namespace

TcpDoor::TcpDoor(const TcpStoreServerOptions& options)
    : options_(options), listener_(open_listener(options)) {}

bool TcpDoor::accepting() const { return Clock::now() >= accept_again_; }

void TcpDoor::poll_into(std::vector<pollfd>& polled) const {
  polled.push_back({listener_.fd(), static_cast<short>(accepting() ? POLLIN : 0), 0});
  for (const Strangers* list : {&guests_, &strangers_})
    for (const Stranger& stranger : *list) polled.push_back({stranger.socket.fd(), POLLIN, 0});
}

Deadline TcpDoor::next_due() const {
  Deadline next = accepting() ? Deadline::max() : accept_again_;
  for (const Strangers* list : {&guests_, &strangers_})
    if (!list->empty()) next = std::min(next, list->front().deadline);
  return next;
}

void TcpDoor::serve(const pollfd* events, const LetIn& let_in) {
  const bool knocked = events++->revents != 0;
  for (Strangers* list : {&guests_, &strangers_})
    for (auto at = list->begin(); at != list->end();) {
      const auto stranger = at++;
      if (events++->revents != 0) hear(*list, stranger, let_in);
    }
  if (knocked) accept_some(let_in);
  close_the_slow();
}

void TcpDoor::accept_some(const LetIn& let_in) {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    Socket socket = accept_from(listener_);
    if (!socket) {
      const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
      if (exhausted && !strangers_.empty()) {
        strangers_.pop_front();
        continue;
      }
      if (exhausted) accept_again_ = Clock::now() + kExhausted;
      return;
    }
    push(strangers_, {std::move(socket), Clock::now() + options_.handshake_timeout});
    // A rank's hello has mostly arrived already.
    hear(strangers_, std::prev(strangers_.end()), let_in);
  }
}

void TcpDoor::push(Strangers& list, Stranger&& stranger) {
  if (list.size() >= options_.max_strangers) list.pop_front();
  list.push_back(std::move(stranger));
}

void TcpDoor::close_the_slow() {
  for (Strangers* list : {&guests_, &strangers_})
    while (!list->empty() && Clock::now() >= list->front().deadline) list->pop_front();
}

void TcpDoor::hear(Strangers& list, Strangers::iterator stranger, const LetIn& let_in) {
  const bool guest = &list == &guests_;
  const std::size_t owed = (guest ? kProof : kHello) - stranger->in.size();
  const Got got = receive_some(stranger->socket, stranger->in, owed);
  if (got == Got::nothing) return;
  if (got == Got::bytes) {
    const Heard heard = guest ? hear_proof(*stranger) : hear_hello(*stranger);
    if (heard == Heard::part) return;
    if (heard == Heard::all && guest) let_in(std::move(stranger->socket));
    // A valid hello, if perhaps a recorded one, protects it from being crowded out by others.
    if (heard == Heard::all && !guest) push(guests_, std::move(*stranger));
  }
  list.erase(stranger);
}

TcpDoor::Heard TcpDoor::hear_hello(Stranger& stranger) const {
  const std::size_t n = std::min(stranger.in.size(), kMagic.size());
  if (stranger.in.compare(0, n, kMagic.substr(0, n)) != 0) return Heard::wrong;
  if (stranger.in.size() < kHello) return Heard::part;
  const std::string nonce = stranger.in.substr(kMagic.size(), kNonce);
  const std::string signature = stranger.in.substr(kMagic.size() + kNonce);
  if (!options_.token.verifies(signature, "hello", nonce)) return Heard::wrong;
  const std::string fresh = random_bytes(kNonce);
  stranger.nonces = nonce + fresh;
  stranger.in.clear();
  const std::string challenge = fresh + options_.token.sign("server", stranger.nonces);
  // These are the first bytes into an empty buffer: all or none are sent.
  return send(stranger.socket.fd(), challenge.data(), challenge.size(), MSG_NOSIGNAL) ==
                 static_cast<ssize_t>(challenge.size())
             ? Heard::all
             : Heard::wrong;
}

TcpDoor::Heard TcpDoor::hear_proof(const Stranger& stranger) const {
  if (stranger.in.size() < kProof) return Heard::part;
  return options_.token.verifies(stranger.in, "client", stranger.nonces) ? Heard::all
                                                                         : Heard::wrong;
}

}  // namespace ringlet::comm
