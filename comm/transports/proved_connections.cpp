#include "ringlet/comm/transports/proved_connections.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "ringlet/comm/stores/handshake.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kNap = std::chrono::milliseconds(5);

}  // namespace

std::vector<Socket> connect_peers(const Membership& membership, const std::string& address) {
  const int me = membership.rank, size = membership.size;
  const Deadline deadline = Clock::now() + membership.timeout;
  const auto name = [&](int rank) { return std::to_string(membership.name_of(rank)); };
  const auto check = [&](int peer) {
    if (membership.store->raised())
      fail(membership.store->cause(), "; rank ", membership.me(), " was making the group ",
           membership.id);
    if (Clock::now() >= deadline)
      fail("[group] ", membership.id, ": ", membership.waited(), " for a connection with rank ",
           name(peer));
  };

  if (me == 0) membership.store->set(membership.key("secret"), Token::random().secret());
  Socket listener = listen_at(address, 0);
  membership.store->set(membership.key(str("address of rank ", me)),
                        str(address, ' ', local_port(listener)));
  const Token secret(membership.get("secret", "the secret of rank " + name(0)));

  std::mutex mutex;
  std::vector<Socket> peers(static_cast<std::size_t>(size));
  const auto entry = [&](int rank) -> Socket& { return peers[static_cast<std::size_t>(rank)]; };
  // Higher ranks connect to this one.
  const auto accept = [&](Socket& socket, std::uint32_t id) {
    const std::lock_guard lock(mutex);
    const int rank = static_cast<int>(std::min(id, static_cast<std::uint32_t>(size)));
    if (me < rank && rank < size && !entry(rank)) entry(rank) = std::move(socket);
  };
  {
    Acceptor acceptor(std::move(listener), secret, accept);
    for (int peer = 0; peer < me; ++peer) {
      const std::string place =
          membership.get(str("address of rank ", peer), "the address of rank " + name(peer));
      const std::size_t space = place.find(' ');
      const int port = std::stoi(place.substr(space + 1));
      for (;; std::this_thread::sleep_for(kNap)) {  // a peer with many connections closes some
        std::string why;
        Socket socket = connect_to(place.substr(0, space), port, Clock::now() + kHandshake, why);
        if (socket && prove_to_server(socket, secret, static_cast<std::uint32_t>(me),
                                      Clock::now() + kHandshake, why)) {
          entry(peer) = std::move(socket);
          break;
        }
        check(peer);
      }
    }
    for (int peer = me + 1; peer < size; ++peer)
      for (;; std::this_thread::sleep_for(kNap)) {
        const std::lock_guard lock(mutex);
        if (entry(peer)) break;
        check(peer);
      }
  }
  return peers;
}

}  // namespace ringlet::comm
