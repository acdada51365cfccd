#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "ringlet/comm/stores/handshake.h"
#include "ringlet/comm/stores/tcp_protocol.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Timeout kEnding = std::chrono::seconds(10);  // ranks have for it after an alarm
/// A message that a client has begun, or an answer to it, takes no longer.
constexpr auto kMessage = std::chrono::seconds(5);

Socket open_listener(const TcpStoreServerOptions& options) {
  const auto& [host, port, token] = options;
  require_token_beyond_loopback(host, token);
  const bool as_given = token.empty() || host == "localhost" || is_numeric_address(host);
  return listen_at(as_given ? host : "", port);
}

/// Each client has a thread, which alone reads and writes its connection.
class Server final : public TcpStoreServer {
 public:
  explicit Server(const TcpStoreServerOptions& options)
      : acceptor_(open_listener(options), options.token,
                  [this](const Socket& socket, std::uint32_t) { serve(socket); }) {}
  ~Server() override { wake(stop_); }

  int port() const override { return acceptor_.port(); }
  bool wait_for_goodbyes(Timeout timeout) const override {
    const auto start = Clock::now();
    while (joined_ > 0 &&
           Clock::now() - start < (is_raised_ ? std::min(timeout, kEnding) : timeout))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return joined_ == 0;
  }

 private:
  /// Serves a client until it has left.
  void serve(const Socket& socket) {
    std::string name;  // "rank 2 (pid 77, host a)"; empty until it has joined
    std::string end;
    try {
      end = converse(socket, name);
    } catch (const Error& error) {
      end = str("sent what is no message: ", error.what());
    }
    if (name.empty()) return;
    const std::lock_guard lock(mutex_);
    if (!end.empty()) raise(name, name + ' ' + end);
    --joined_;
  }

  /// Returns what became of the client; nothing if it has left, or if the server ends.
  std::string converse(const Socket& socket, std::string& name) {
    for (bool told = false;;) {
      pollfd polled[] = {{stop_.fd(), POLLIN, 0},
                         {told || name.empty() ? -1 : alarmed_.fd(), POLLIN, 0},
                         {socket.fd(), POLLIN, 0}};
      if (poll(polled, std::size(polled), -1) < 0 && errno != EINTR)
        return str("cannot be served: ", std::strerror(errno));
      bool is_last = false;
      StoreMessage out;
      if (polled[0].revents != 0) {
        is_last = true;
        out.type = StoreVerb::closing;
      } else if (polled[1].revents != 0) {
        told = true;
        out = alarm();
      } else if (polled[2].revents != 0) {
        const auto message = receive_message(socket, Clock::now() + kMessage);
        if (!message)
          return errno == 0 || errno == ECONNRESET
                     ? "ended without leaving the group"
                     : str("cannot be reached any more: ", std::strerror(errno));
        is_last = message->type == StoreVerb::goodbye;
        out = answer(name, *message);
      } else {
        continue;
      }
      const std::string bytes = encode(out);
      const bool sent = send_until(socket, bytes, Clock::now() + kMessage) == bytes.size();
      if (!sent && errno == ETIMEDOUT) return "does not read what it asked for";
      if (is_last) return "";
    }
  }

  StoreMessage answer(std::string& name, const StoreMessage& message) {
    if ((message.type == StoreVerb::join) == !name.empty()) fail("a message out of turn");
    StoreMessage done{.type = StoreVerb::done, .id = message.id};
    const std::lock_guard lock(mutex_);
    switch (message.type) {
      case StoreVerb::join:
        name = message.value;
        ++joined_;  // before the answer, so that it is counted when it has it
        return done;
      case StoreVerb::set:
        values_[message.key] = message.value;
        return done;
      case StoreVerb::find:
        if (const auto found = values_.find(message.key); found != values_.end())
          done.value = found->second;
        else
          done.type = StoreVerb::absent;
        return done;
      case StoreVerb::add:
        done.number = counters_[message.key] += message.number;
        return done;
      case StoreVerb::raise:
        raise(name, message.value);
        done = alarm_;
        done.id = message.id;
        return done;
      case StoreVerb::goodbye:
        return done;
      default:
        fail("a message of the server's own");
    }
  }

  StoreMessage alarm() const {
    const std::lock_guard lock(mutex_);
    return alarm_;
  }
  /// The first cause goes to all clients, also those that join later. With mutex_ held.
  void raise(const std::string& who, const std::string& cause) {
    if (is_raised_.exchange(true)) return;
    alarm_ = {.type = StoreVerb::alarm, .key = who, .value = cause};
    wake(alarmed_);
  }

  // Readable from the alarm, and from the server's end, on.
  const Socket alarmed_ = make_wakeup(), stop_ = make_wakeup();
  mutable std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::int64_t> counters_;
  StoreMessage alarm_;
  std::atomic<bool> is_raised_{false};
  std::atomic<int> joined_{0};
  Acceptor acceptor_;  // its threads use the others
};

}  // namespace

std::unique_ptr<TcpStoreServer> serve_tcp_store(const TcpStoreServerOptions& options) {
  return std::make_unique<Server>(options);
}

}  // namespace ringlet::comm
