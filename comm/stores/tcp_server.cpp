#include "ringlet/comm/stores/tcp_server.h"

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_protocol.h"
#include "ringlet/comm/stores/tcp_scope.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

/// Unauthenticated clients with a hello, and without. They leave descriptors for the ranks' pipes.
std::ptrdiff_t most_unauthenticated() {
  rlimit files{};
  const bool known = getrlimit(RLIMIT_NOFILE, &files) == 0;
  return known ? static_cast<std::ptrdiff_t>(std::clamp<rlim_t>(files.rlim_cur / 8, 2, 256)) : 256;
}
constexpr int kAcceptsPerRound = 64;  // so that a flood of connections waits, not the ranks
constexpr int kTick = 100;            // ms between two looks at the clock, if there are deadlines
constexpr auto kExhausted = std::chrono::milliseconds(100);  // without accepts, for descriptors
constexpr auto kFlush = std::chrono::milliseconds(500);
constexpr std::size_t kLongestName = 512;

/// A client's number of milliseconds, within a year.
Timeout milliseconds(std::int64_t number) {
  return Timeout(std::clamp<std::int64_t>(number, 0, Timeout(std::chrono::years(1)).count()));
}

Socket open_listener(const TcpStoreServerOptions& options) {
  const auto& [host, port, token] = options;
  require_token_beyond_loopback(host, token);
  const bool as_given = token.empty() || host == "localhost" || is_numeric_address(host);
  return listen_at(as_given ? host : "", port);
}

class Server final : public TcpStoreServer {
 public:
  explicit Server(const TcpStoreServerOptions& options)
      : token_(options.token), wakeup_(make_wakeup()), listener_(open_listener(options)) {
    const SignalsBlocked blocked;
    thread_ = start_thread([this] { serve(); });
  }
  ~Server() override {
    stop_ = true;
    wake(wakeup_);
    thread_.join();
  }

  int port() const override { return local_port(listener_); }
  bool wait_for_goodbyes(Timeout timeout) const override {
    const Deadline deadline = Clock::now() + timeout;
    while (joined_ > 0 && Clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return joined_ == 0;
  }

 private:
  /// Runs on the only thread that uses the sockets.
  void serve() {
    try {
      while (!stop_) serve_once();
      const Deadline deadline = Clock::now() + kFlush;
      for (const StoreClient& client : clients_)
        if (client.authenticated)
          send_until(client.socket, client.out + encode({.type = StoreVerb::closing}), deadline);
    } catch (const std::exception& error) {
      for (auto& [name, scope] : scopes_)
        raise(scope, "", str("the store at port ", port(), ": ", error.what()));
      clients_.clear();
      joined_ = 0;
    }
  }

  void serve_once() {
    const bool accepts = Clock::now() >= accept_again_;
    bool deadlines = !accepts;
    polled_.assign({{wakeup_.fd(), POLLIN, 0}, {accepts ? listener_.fd() : -1, POLLIN, 0}});
    for (const StoreClient& client : clients_) {
      const int events = client.out.empty() ? POLLIN : POLLIN | POLLOUT;
      polled_.push_back({client.socket.fd(), static_cast<short>(events), 0});
      deadlines |= !client.authenticated || client.silence != Timeout::zero();
    }
    if (poll(polled_.data(), polled_.size(), deadlines ? kTick : -1) < 0) {
      RINGLET_CHECK(errno == EINTR, "[store] poll: ", std::strerror(errno));
      return;
    }
    std::size_t i = 2;
    for (StoreClient& client : clients_)
      if (const short events = polled_[i++].revents; events != 0) serve(client, events);
    for (StoreClient& client : clients_) {
      if (!client.authenticated && Clock::now() >= client.deadline) client.gone = true;
      if (client.silent())
        lose(client, str("has been silent for ", seconds_of(client.silence), " s"));
      if (client.stuck()) lose(client, "does not read what it asked for");
    }
    if (polled_[1].revents != 0) accept_some();
    if (std::erase_if(clients_, [](const StoreClient& client) { return client.gone; }) > 0)
      std::erase_if(scopes_, [&](const auto& scope) {  // an alarm stays, for ranks that join late
        return !scope.second.raised() &&
               std::ranges::none_of(clients_, [&](const StoreClient& client) {
                 return client.scope == &scope.second;
               });
      });
  }

  void serve(StoreClient& client, short events) {
    if (client.gone) return;
    if (events & POLLOUT) client.flush();
    if (!(events & (POLLIN | POLLHUP | POLLERR))) return;
    const std::size_t handshake = client.nonces.empty() ? kHello : kProof;
    const Got got = client.authenticated
                        ? receive_some(client.socket, client.in)
                        : receive_some(client.socket, client.in, handshake - client.in.size());
    const int why = errno;
    if (got == Got::nothing) return;
    if (got == Got::end)
      return lose(client, why == 0 || why == ECONNRESET
                              ? "ended without saying goodbye"
                              : str("cannot be reached any more: ", std::strerror(why)));
    client.mark_alive();
    try {
      if (!client.authenticated) shake_hands(client);
      while (client.authenticated && !client.gone) {
        const std::optional<StoreMessage> message = take_message(client.in);
        if (!message) return;
        handle(client, *message);
      }
    } catch (const Error& error) {
      lose(client, str("sent what is no message: ", error.what()));
    }
  }

  // ---- unauthenticated clients ------------------------------------------------------------------

  void accept_some() {
    for (int i = 0; i < kAcceptsPerRound; ++i) {
      Socket socket = accept_from(listener_);
      // A connection waits for the first one; accept() needs a descriptor even if none does.
      const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
      if (!socket && exhausted && i == 0 && !close_oldest(/*greeted=*/false, 0))
        accept_again_ = Clock::now() + kExhausted;
      if (!socket) break;
      clients_.push_back({std::move(socket), Clock::now() + kHandshake});
      serve(clients_.back(), POLLIN);  // a rank's hello has mostly arrived already
    }
    for (const bool greeted : {false, true})
      while (close_oldest(greeted, most_unauthenticated_)) continue;
  }

  /// Closes the oldest of more than `most` unauthenticated clients; false if there are no more.
  /// Those with a valid hello, if perhaps a recorded one, are counted separately: the others cannot
  /// crowd them out.
  bool close_oldest(bool greeted, std::ptrdiff_t most) {
    const auto counts = [&](const StoreClient& client) {
      return !client.gone && !client.authenticated && client.nonces.empty() != greeted;
    };
    if (std::ranges::count_if(clients_, counts) <= most) return false;
    std::ranges::find_if(clients_, counts)->gone = true;
    return true;
  }

  /// Handles a hello or a proof. A wrong one is refused as soon as it is seen to be wrong.
  void shake_hands(StoreClient& client) {
    if (!client.nonces.empty()) {
      if (client.in.size() < kProof) return;
      client.authenticated = token_.verifies(client.in, "client", client.nonces);
      client.gone = !client.authenticated;
      client.in.clear();
      return;
    }
    client.gone = !kMagic.starts_with(client.in.substr(0, kMagic.size()));
    if (client.gone || client.in.size() < kHello) return;
    const std::string nonce = client.in.substr(kMagic.size(), kNonce);
    client.gone = !token_.verifies(client.in.substr(kMagic.size() + kNonce), "hello", nonce);
    // Any process of this host knows the key of an empty token.
    if (token_.empty() && !client.gone) client.gone = !peer_is_this_user(client.socket);
    if (client.gone) return;
    const std::string fresh = random_bytes(kNonce);
    client.nonces = nonce + fresh;
    client.in.clear();
    client.out = fresh + token_.sign("server", client.nonces);
    client.flush();
  }

  // ---- members of a scope -----------------------------------------------------------------------

  void handle(StoreClient& client, const StoreMessage& message) {
    if ((message.type == StoreVerb::join) == (client.scope != nullptr))
      fail("a message out of turn");
    StoreMessage done{.type = StoreVerb::done, .id = message.id};
    switch (message.type) {
      case StoreVerb::join:
        return join(client, message);
      case StoreVerb::set:
        if (!client.scope->set(message)) {
          done.type = StoreVerb::refused;
          done.value = str("the store is full: ", kMostBytes, " bytes");
        }
        return client.answer(done);
      case StoreVerb::get:
        if (const auto found = client.scope->values.find(message.key);
            found != client.scope->values.end()) {
          done.value = found->second;
          return client.answer(done);
        }
        std::erase_if(client.scope->waiters, [now = Clock::now()](const auto& waiter) {
          return waiter.second.deadline < now;
        });
        client.scope->waiters.insert(
            {message.key, {&client, message.id, Clock::now() + milliseconds(message.number)}});
        return;
      case StoreVerb::add:
        done.number = client.scope->counters[message.key] += message.number;
        return client.answer(done);
      case StoreVerb::raise:
        return raise(*client.scope, client.name, message.value);
      case StoreVerb::goodbye:
        return leave(client);
      default:
        fail("a message of the server's own");
    }
  }

  void join(StoreClient& client, const StoreMessage& message) {
    RINGLET_CHECK(message.value.size() <= kLongestName, "a name of ", message.value.size(),
                  " bytes");
    client.name = message.value;
    client.silence = milliseconds(message.number);
    client.mark_alive();
    client.scope = &scopes_[message.key];
    ++joined_;  // before the answer, so that it is counted when it has it
    client.answer({.type = StoreVerb::done, .id = message.id});
    if (client.scope->raised()) client.answer(client.scope->alarm);
  }

  void lose(StoreClient& client, const std::string& what) {
    StoreScope* const scope = client.scope;
    leave(client);
    if (scope != nullptr) raise(*scope, client.name, client.name + ' ' + what);
  }

  void leave(StoreClient& client) {
    client.gone = true;
    StoreScope* const scope = std::exchange(client.scope, nullptr);
    if (scope == nullptr) return;
    std::erase_if(scope->waiters,
                  [&](const auto& waiter) { return waiter.second.client == &client; });
    --joined_;
  }

  /// Raises the first cause on all clients of the scope; later ones receive it when they join.
  void raise(StoreScope& scope, const std::string& who, const std::string& cause) {
    if (scope.raised()) return;
    scope.alarm = {.type = StoreVerb::alarm, .key = who, .value = cause};
    for (StoreClient& client : clients_)
      if (client.scope == &scope) client.answer(scope.alarm);
  }

  const Token token_;
  const std::ptrdiff_t most_unauthenticated_ = most_unauthenticated();
  const Socket wakeup_;
  const Socket listener_;
  std::list<StoreClient> clients_;  // oldest first
  std::map<std::string, StoreScope> scopes_;
  std::vector<pollfd> polled_;
  Deadline accept_again_ = {};
  std::atomic<int> joined_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<TcpStoreServer> serve_tcp_store(const TcpStoreServerOptions& options) {
  return std::make_unique<Server>(options);
}

}  // namespace ringlet::comm
