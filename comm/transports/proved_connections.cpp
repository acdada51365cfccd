#include "ringlet/comm/transports/proved_connections.h"

#include <poll.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <list>
#include <thread>

#include "ringlet/comm/stores/tcp_protocol.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kRank = sizeof(std::uint32_t);
constexpr std::size_t kPeerHello = kRank + kNonce + Token::kSigned;
constexpr std::size_t kMostUngreeted = 64;  // connections without a valid hello
constexpr int kAlarmTick = 20;              // ms between two looks at the alarm
constexpr auto kNap = std::chrono::milliseconds(20);

/// An accepted connection. As in the store's handshake, its hello is rank, C, sign("hello", rank
/// C).
struct Candidate {
  Socket socket;
  Deadline deadline;
  std::string in = {};
  std::string nonces = {};  // C S, once its hello was valid
  std::size_t rank = 0;
  bool gone = false;
};

class Connections {
 public:
  Connections(const Membership& membership, const std::string& address)
      : membership_(membership),
        deadline_(Clock::now() + membership.timeout),
        me_(static_cast<std::size_t>(membership.rank)),
        peers_(static_cast<std::size_t>(membership.size)),
        listener_(listen_at(address, 0)) {
    if (me_ == 0) membership_.store->set(membership_.key("secret"), Token::random().secret());
    membership_.store->set(membership_.key(str("address of rank ", me_)),
                           str(address, ' ', local_port(listener_)));
    secret_ = Token(membership_.get("secret", "the secret of rank " + name_of(0)));
  }

  /// Rank 0 accepts at once, and each rank after it has connected to the lower ones.
  std::vector<Socket> make() {
    for (std::size_t peer = 0; peer < me_; ++peer) peers_[peer] = connect(peer);
    while (missing() < peers_.size()) accept_some();
    return std::move(peers_);
  }

 private:
  std::string name_of(std::size_t rank) const {
    return std::to_string(membership_.name_of(static_cast<int>(rank)));
  }
  /// The first rank that has not connected yet; peers_.size() without one.
  std::size_t missing() const {
    const auto absent = [](const Socket& peer) { return !peer; };
    return static_cast<std::size_t>(
        std::find_if(peers_.begin() + membership_.rank + 1, peers_.end(), absent) - peers_.begin());
  }

  void check(std::size_t peer) const {
    if (membership_.store->raised())
      fail(membership_.store->cause(), "; rank ", membership_.me(), " was making the group ",
           membership_.id);
    if (Clock::now() >= deadline_)
      fail("[group] ", membership_.id, ": ", membership_.waited(), " for a connection with rank ",
           name_of(peer));
  }

  // ---- to a lower rank --------------------------------------------------------------------------

  Socket connect(std::size_t peer) const {
    const std::string place =
        membership_.get(str("address of rank ", peer), "the address of rank " + name_of(peer));
    const std::size_t space = place.find(' ');
    const int port = std::stoi(place.substr(space + 1));
    for (;; std::this_thread::sleep_for(kNap)) {
      std::string why;
      Socket socket = connect_to(place.substr(0, space), port, Clock::now() + kHandshake, why);
      if (socket && proves(socket, peer)) return socket;
      check(peer);
    }
  }

  /// False if the other side closes the connection, as it does if there are many.
  bool proves(const Socket& socket, std::size_t peer) const {
    const auto rank = static_cast<std::uint32_t>(me_);
    const std::string nonce = random_bytes(kNonce);
    const std::string hello = std::string(reinterpret_cast<const char*>(&rank), kRank) + nonce;
    send_until(socket, hello + secret_.sign("hello", hello), deadline_);
    std::string answer;
    while (answer.size() < kChallenge) {
      const Got got = receive_some(socket, answer, kChallenge - answer.size());
      if (got == Got::end) return false;
      if (got == Got::bytes) continue;
      pollfd entry{socket.fd(), POLLIN, 0};
      poll(&entry, 1, kAlarmTick);
      check(peer);
    }
    const std::string nonces = nonce + answer.substr(0, kNonce);
    return secret_.verifies(answer.substr(kNonce), "server", nonces) &&
           send_until(socket, secret_.sign("client", nonces), deadline_) == kProof;
  }

  // ---- from the higher ranks --------------------------------------------------------------------

  void accept_some() {
    std::vector<pollfd> polled{{listener_.fd(), POLLIN, 0}};
    for (const Candidate& one : candidates_) polled.push_back({one.socket.fd(), POLLIN, 0});
    poll(polled.data(), polled.size(), kAlarmTick);
    check(missing());
    for (std::size_t i = 0; i < kMostUngreeted; ++i) {
      Socket socket = accept_from(listener_);
      if (!socket) break;
      candidates_.push_back({std::move(socket), Clock::now() + kHandshake});
    }
    for (Candidate& one : candidates_) serve(one);
    candidates_.remove_if([](const Candidate& one) { return one.gone; });
    const auto ungreeted = [](const Candidate& one) { return one.nonces.empty(); };
    while (std::ranges::count_if(candidates_, ungreeted) >
           static_cast<std::ptrdiff_t>(kMostUngreeted))
      candidates_.erase(std::ranges::find_if(candidates_, ungreeted));  // the oldest
  }

  void serve(Candidate& one) {
    const std::size_t expected = one.nonces.empty() ? kPeerHello : kProof;
    const Got got = receive_some(one.socket, one.in, expected - one.in.size());
    one.gone = got == Got::end || Clock::now() >= one.deadline;
    if (one.gone || one.in.size() < expected) return;
    if (one.nonces.empty()) return greet(one);
    if (secret_.verifies(one.in, "client", one.nonces) && !peers_[one.rank])
      peers_[one.rank] = std::move(one.socket);
    one.gone = true;
  }

  void greet(Candidate& one) const {
    std::uint32_t rank = 0;
    std::memcpy(&rank, one.in.data(), kRank);
    const std::string hello = one.in.substr(0, kRank + kNonce);
    one.gone = rank <= me_ || rank >= peers_.size() ||
               !secret_.verifies(one.in.substr(hello.size()), "hello", hello);
    if (one.gone) return;
    one.rank = rank;
    const std::string fresh = random_bytes(kNonce);
    one.nonces = hello.substr(kRank) + fresh;
    one.in.clear();
    send_until(one.socket, fresh + secret_.sign("server", one.nonces), Deadline());
  }

  const Membership& membership_;
  const Deadline deadline_;
  const std::size_t me_;
  std::vector<Socket> peers_;
  const Socket listener_;
  Token secret_;
  std::list<Candidate> candidates_;  // oldest first
};

}  // namespace

std::vector<Socket> connect_peers(const Membership& membership, const std::string& address) {
  return Connections(membership, address).make();
}

}  // namespace ringlet::comm
