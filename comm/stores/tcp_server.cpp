#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <thread>
#include <vector>

#include "ringlet/comm/stores/handshake.h"
#include "ringlet/comm/stores/tcp_protocol.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTick = 100;  // ms between two looks at the clock, if there are deadlines
constexpr auto kFlush = std::chrono::milliseconds(500);
constexpr Timeout kEnding = std::chrono::seconds(10);  // ranks have for it after an alarm
constexpr std::size_t kLongestName = 512;
constexpr std::size_t kMostBytes = 256 << 20;  // of all keys and values
constexpr std::size_t kMostUnsent = 64 << 20;  // to one client

Socket open_listener(const TcpStoreServerOptions& options) {
  const auto& [host, port, token] = options;
  require_token_beyond_loopback(host, token);
  const bool as_given = token.empty() || host == "localhost" || is_numeric_address(host);
  return listen_at(as_given ? host : "", port);
}

/// A connection that has proved to know the token.
struct Client {
  Socket socket;
  std::string in = {};
  std::string out = {};   // not sent yet
  std::string name = {};  // "rank 2 (pid 77, host a)"; empty until it has joined
  bool gone = false;

  void flush() { out.erase(0, send_until(socket, out, Deadline())); }  // reading finds errors
  /// The client requests and does not read the answers; it receives no more of them.
  bool stuck() const { return out.size() > kMostUnsent; }
  void answer(const StoreMessage& message) {
    if (gone || stuck()) return;
    out += encode(message);
    flush();
  }
};

/// A get that waits for its key.
struct Waiter {
  Client* client;
  std::uint64_t id;
  Deadline deadline;
};

class Server final : public TcpStoreServer {
 public:
  explicit Server(const TcpStoreServerOptions& options)
      : wakeup_(make_wakeup()), admission_(open_listener(options), options.token) {
    const SignalsBlocked blocked;
    thread_ = start_thread([this] { serve(); });
  }
  ~Server() override {
    stop_ = true;
    wake(wakeup_);
    thread_.join();
  }

  int port() const override { return admission_.port(); }
  bool wait_for_goodbyes(Timeout timeout) const override {
    const auto start = Clock::now();
    while (joined_ > 0 && Clock::now() - start < (alarmed_ ? std::min(timeout, kEnding) : timeout))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return joined_ == 0;
  }

 private:
  /// Runs on the only thread that uses the sockets.
  void serve() {
    try {
      while (!stop_) serve_once();
      const Deadline deadline = Clock::now() + kFlush;
      for (const Client& client : clients_)
        send_until(client.socket, client.out + encode({.type = StoreVerb::closing}), deadline);
    } catch (const std::exception& error) {
      raise("", str("the store at port ", port(), ": ", error.what()));
      clients_.clear();
      joined_ = 0;
    }
  }

  void serve_once() {
    polled_.assign({{wakeup_.fd(), POLLIN, 0}});
    for (const Client& client : clients_) {
      const int events = client.out.empty() ? POLLIN : POLLIN | POLLOUT;
      polled_.push_back({client.socket.fd(), static_cast<short>(events), 0});
    }
    admission_.add_to(polled_);
    if (poll(polled_.data(), polled_.size(), admission_.has_deadlines() ? kTick : -1) < 0) {
      RINGLET_CHECK(errno == EINTR, "[store] poll: ", std::strerror(errno));
      return;
    }
    std::size_t i = 1;
    for (Client& client : clients_)
      if (const short events = polled_[i++].revents; events != 0) serve(client, events);
    for (Client& client : clients_)
      if (client.stuck()) lose(client, "does not read what it asked for");
    admission_.serve([this](Socket socket, std::uint32_t) {
      clients_.push_back({std::move(socket)});
      serve(clients_.back(), POLLIN);  // its first message has mostly arrived already
    });
    clients_.remove_if([](const Client& client) { return client.gone; });
  }

  void serve(Client& client, short events) {
    if (client.gone) return;
    if (events & POLLOUT) client.flush();
    if (!(events & (POLLIN | POLLHUP | POLLERR))) return;
    const Got got = receive_some(client.socket, client.in);
    const int why = errno;
    if (got == Got::nothing) return;
    if (got == Got::end)
      return lose(client, why == 0 || why == ECONNRESET
                              ? "ended without leaving the group"
                              : str("cannot be reached any more: ", std::strerror(why)));
    try {
      while (!client.gone) {
        const std::optional<StoreMessage> message = take_message(client.in);
        if (!message) return;
        handle(client, *message);
      }
    } catch (const Error& error) {
      lose(client, str("sent what is no message: ", error.what()));
    }
  }

  void handle(Client& client, const StoreMessage& message) {
    if ((message.type == StoreVerb::join) == !client.name.empty()) fail("a message out of turn");
    StoreMessage done{.type = StoreVerb::done, .id = message.id};
    switch (message.type) {
      case StoreVerb::join:
        return join(client, message);
      case StoreVerb::set:
        if (!set(message))
          done = {.type = StoreVerb::refused,
                  .id = message.id,
                  .value = str("the store is full: ", kMostBytes, " bytes")};
        return client.answer(done);
      case StoreVerb::get:
        return get(client, message);
      case StoreVerb::add:
        done.number = counters_[message.key] += message.number;
        return client.answer(done);
      case StoreVerb::raise:
        return raise(client.name, message.value);
      case StoreVerb::goodbye:
        return leave(client);
      default:
        fail("a message of the server's own");
    }
  }

  void join(Client& client, const StoreMessage& message) {
    RINGLET_CHECK(!message.value.empty() && message.value.size() <= kLongestName, "a name of ",
                  message.value.size(), " bytes");
    client.name = message.value;
    ++joined_;  // before the answer, so that it is counted when it has it
    client.answer({.type = StoreVerb::done, .id = message.id});
    if (raised()) client.answer(alarm_);
  }

  /// False, without effect, if the store is full.
  bool set(const StoreMessage& message) {
    const auto old = values_.find(message.key);
    const std::size_t before = old == values_.end() ? 0 : old->first.size() + old->second.size();
    const std::size_t after = nbytes_ - before + message.key.size() + message.value.size();
    if (after > kMostBytes) return false;
    nbytes_ = after;
    values_[message.key] = message.value;
    const auto [first, last] = waiters_.equal_range(message.key);
    for (auto at = first; at != last; ++at)
      at->second.client->answer(
          {.type = StoreVerb::done, .id = at->second.id, .value = message.value});
    waiters_.erase(first, last);
    return true;
  }

  void get(Client& client, const StoreMessage& message) {
    if (const auto found = values_.find(message.key); found != values_.end())
      return client.answer({.type = StoreVerb::done, .id = message.id, .value = found->second});
    const auto now = Clock::now();
    std::erase_if(waiters_, [&](const auto& waiter) { return waiter.second.deadline < now; });
    const auto wait =
        std::clamp<std::int64_t>(message.number, 0, Timeout(std::chrono::years(1)).count());
    waiters_.insert({message.key, {&client, message.id, now + Timeout(wait)}});
  }

  void lose(Client& client, const std::string& what) {
    const bool had_joined = !client.gone && !client.name.empty();
    leave(client);
    if (had_joined) raise(client.name, client.name + ' ' + what);
  }

  void leave(Client& client) {
    if (std::exchange(client.gone, true)) return;
    std::erase_if(waiters_, [&](const auto& waiter) { return waiter.second.client == &client; });
    if (!client.name.empty()) --joined_;
  }

  bool raised() const { return alarm_.type == StoreVerb::alarm; }
  /// Raises the first cause on all clients; later ones receive it when they join.
  void raise(const std::string& who, const std::string& cause) {
    if (raised()) return;
    alarm_ = {.type = StoreVerb::alarm, .key = who, .value = cause};
    alarmed_ = true;
    for (Client& client : clients_)
      if (!client.name.empty()) client.answer(alarm_);
  }

  const Socket wakeup_;
  Admission admission_;
  std::list<Client> clients_;
  std::map<std::string, std::string> values_;
  std::size_t nbytes_ = 0;  // of keys and values
  std::map<std::string, std::int64_t> counters_;
  std::multimap<std::string, Waiter> waiters_;
  StoreMessage alarm_;
  std::vector<pollfd> polled_;
  std::atomic<int> joined_{0};
  std::atomic<bool> alarmed_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<TcpStoreServer> serve_tcp_store(const TcpStoreServerOptions& options) {
  return std::make_unique<Server>(options);
}

}  // namespace ringlet::comm
