// A TCP connection between every two ranks, which only ranks of the group can make.
#include <poll.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "ringlet/comm/membership.h"
#include "ringlet/comm/stores/handshake.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAlarmTick = 20;  // ms between two looks at the alarm
constexpr auto kNap = std::chrono::milliseconds(20);

class Connections {
 public:
  Connections(const Membership& membership, const std::string& address)
      : membership_(membership),
        deadline_(Clock::now() + membership.timeout),
        me_(static_cast<std::size_t>(membership.rank)),
        peers_(static_cast<std::size_t>(membership.size)) {
    if (me_ == 0) membership_.store->set(membership_.key("secret"), Token::random().secret());
    Socket listener = listen_at(address, 0);
    membership_.store->set(membership_.key(str("address of rank ", me_)),
                           str(address, ' ', local_port(listener)));
    secret_ = Token(membership_.get("secret", "the secret of rank " + name_of(0)));
    admission_.emplace(std::move(listener), secret_);
  }

  /// Rank 0 accepts immediately, and each rank after it has connected to the lower ones.
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

  /// To a lower rank. It closes the connection if there are many.
  Socket connect(std::size_t peer) const {
    const std::string place =
        membership_.get(str("address of rank ", peer), "the address of rank " + name_of(peer));
    const std::size_t space = place.find(' ');
    const int port = std::stoi(place.substr(space + 1));
    for (;; std::this_thread::sleep_for(kNap)) {
      std::string why;
      Socket socket = connect_to(place.substr(0, space), port, Clock::now() + kHandshake, why);
      if (socket && prove_to_server(socket, secret_, static_cast<std::uint32_t>(me_), deadline_,
                                    why, [&] { check(peer); }))
        return socket;
      check(peer);
    }
  }

  /// From higher ranks.
  void accept_some() {
    std::vector<pollfd> polled;
    admission_->add_to(polled);
    poll(polled.data(), polled.size(), kAlarmTick);
    check(missing());
    admission_->serve([this](Socket socket, std::uint32_t rank) {
      if (rank > me_ && rank < peers_.size() && !peers_[rank]) peers_[rank] = std::move(socket);
    });
  }

  const Membership& membership_;
  const Deadline deadline_;
  const std::size_t me_;
  std::vector<Socket> peers_;
  Token secret_;
  std::optional<Admission> admission_;
};

}  // namespace

std::vector<Socket> connect_peers(const Membership& membership, const std::string& address) {
  return Connections(membership, address).make();
}

}  // namespace ringlet::comm
