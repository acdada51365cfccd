#include "ringlet/comm/stores/tcp_handshakes.h"

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

}  // namespace

TcpHandshakes::TcpHandshakes(Socket listener, Token token, Timeout patience, std::size_t most)
    : listener_(std::move(listener)), token_(std::move(token)), patience_(patience), most_(most) {}

bool TcpHandshakes::accepting() const { return Clock::now() >= accept_again_; }

void TcpHandshakes::poll_into(std::vector<pollfd>& polled) const {
  polled.push_back({listener_.fd(), static_cast<short>(accepting() ? POLLIN : 0), 0});
  for (const Clients* list : {&greeted_, &new_clients_})
    for (const Client& client : *list) polled.push_back({client.socket.fd(), POLLIN, 0});
}

Deadline TcpHandshakes::next_due() const {
  Deadline next = accepting() ? Deadline::max() : accept_again_;
  for (const Clients* list : {&greeted_, &new_clients_})
    if (!list->empty()) next = std::min(next, list->front().deadline);
  return next;
}

void TcpHandshakes::serve(const pollfd* events, const OnAccepted& on_accepted) {
  const bool has_connections = events++->revents != 0;
  for (Clients* list : {&greeted_, &new_clients_})
    for (auto at = list->begin(); at != list->end();) {
      const auto client = at++;
      if (events++->revents != 0) receive_from(*list, client, on_accepted);
    }
  if (has_connections) accept_some(on_accepted);
  close_late_clients();
}

void TcpHandshakes::accept_some(const OnAccepted& on_accepted) {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    Socket socket = accept_from(listener_);
    if (!socket) {
      const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
      if (exhausted && !new_clients_.empty()) {
        new_clients_.pop_front();
        continue;
      }
      if (exhausted) accept_again_ = Clock::now() + kExhausted;
      return;
    }
    push(new_clients_, {std::move(socket), Clock::now() + patience_});
    // A rank's hello has mostly arrived already.
    receive_from(new_clients_, std::prev(new_clients_.end()), on_accepted);
  }
}

void TcpHandshakes::push(Clients& list, Client&& client) {
  if (list.size() >= most_) list.pop_front();
  list.push_back(std::move(client));
}

void TcpHandshakes::close_late_clients() {
  for (Clients* list : {&greeted_, &new_clients_})
    while (!list->empty() && Clock::now() >= list->front().deadline) list->pop_front();
}

void TcpHandshakes::receive_from(Clients& list, Clients::iterator client,
                                 const OnAccepted& on_accepted) {
  const bool greeted = &list == &greeted_;
  const std::size_t owed = (greeted ? kProof : kHello) - client->in.size();
  const Got got = receive_some(client->socket, client->in, owed);
  if (got == Got::nothing) return;
  if (got == Got::bytes) {
    const Message message = greeted ? check_proof(*client) : check_hello(*client);
    if (message == Message::partial) return;
    if (message == Message::valid && greeted) on_accepted(std::move(client->socket));
    // A valid hello, if perhaps a recorded one, protects it from being crowded out by others.
    if (message == Message::valid && !greeted) push(greeted_, std::move(*client));
  }
  list.erase(client);
}

TcpHandshakes::Message TcpHandshakes::check_hello(Client& client) const {
  const std::size_t n = std::min(client.in.size(), kMagic.size());
  if (client.in.compare(0, n, kMagic.substr(0, n)) != 0) return Message::invalid;
  if (client.in.size() < kHello) return Message::partial;
  const std::string nonce = client.in.substr(kMagic.size(), kNonce);
  const std::string signature = client.in.substr(kMagic.size() + kNonce);
  if (!token_.verifies(signature, "hello", nonce)) return Message::invalid;
  const std::string fresh = random_bytes(kNonce);
  client.nonces = nonce + fresh;
  client.in.clear();
  const std::string challenge = fresh + token_.sign("server", client.nonces);
  // These are the first bytes into an empty buffer: they are sent without waiting.
  return send_all(client.socket, challenge, Deadline()) ? Message::valid : Message::invalid;
}

TcpHandshakes::Message TcpHandshakes::check_proof(const Client& client) const {
  if (client.in.size() < kProof) return Message::partial;
  return token_.verifies(client.in, "client", client.nonces) ? Message::valid : Message::invalid;
}

}  // namespace ringlet::comm
