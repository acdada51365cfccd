#include "ringlet/comm/stores/tcp_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_protocol.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = 256 << 20;  // of all values of a scope
constexpr std::size_t kMostUnsent = 64 << 20;  // to one client
constexpr std::size_t kLongestName = 512;
constexpr int kAcceptsPerRound = 64;  // so that a flood of strangers waits, not the ranks
constexpr auto kFlush = std::chrono::milliseconds(500);

/// Somebody who has not proved to know the token. It costs at most kHello bytes.
struct Stranger {
  Socket socket;
  Deadline deadline;
  std::string in = {};
  std::string nonces = {};  // C S, once the hello was good
};
using Strangers = std::list<Stranger>;  // oldest, and so first due, first

struct Scope;

/// Somebody who has.
struct Client {
  Socket socket;
  StoreMessageReader reader = {};
  std::string out = {};
  std::string name = {};  // "rank 2 (pid 77, host a)"
  Scope* scope = nullptr;
  bool gone = false;
};

/// Keys and an alarm of their own: a world of ranks, or the launchers of a job.
struct Scope {
  struct Waiter {
    Client* client;
    std::uint64_t id;
  };
  std::map<std::string, std::string> values;
  std::map<std::string, std::int64_t> counters;
  std::multimap<std::string, Waiter> waiters;
  std::size_t nbytes = 0;
  StoreMessage alarm = {};  // its type is alarm once it was raised
  int members = 0;
};

enum class Got { bytes, nothing, end };

/// Reads what is there, at most `most` bytes; errno tells why it ended (0: the peer closed).
Got receive(const Socket& socket, std::string& into, std::size_t most) {
  std::array<char, 1 << 14> buffer;
  const ssize_t n = recv(socket.fd(), buffer.data(), std::min(most, buffer.size()), 0);
  if (n > 0) {
    into.append(buffer.data(), static_cast<std::size_t>(n));
    return Got::bytes;
  }
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Got::nothing;
  if (n == 0) errno = 0;
  return Got::end;
}

}  // namespace

class TcpStoreServer::Impl {
 public:
  explicit Impl(const TcpStoreServerOptions& options)
      : options_(options), wakeup_(make_wakeup()), listener_(open_listener(options)) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { serve(); });
  }

  ~Impl() {
    stop_ = true;
    wake(wakeup_);
    thread_.join();
  }

  int port() const { return local_port(listener_); }

  bool wait_for_goodbyes(Timeout timeout, int remaining) const {
    std::unique_lock lock(count_mutex_);
    return count_changed_.wait_for(lock, timeout, [&] { return joined_ <= remaining; });
  }

 private:
  static Socket open_listener(const TcpStoreServerOptions& options) {
    require_token_beyond_loopback(options.host, options.token);
    return listen_at(options.host, options.port);
  }

  // ---- one thread -------------------------------------------------------------------------------

  void serve() {
    std::vector<pollfd> polled;
    while (!stop_) {
      polled.clear();
      polled.push_back({wakeup_.fd(), POLLIN, 0});
      polled.push_back({listener_.fd(), static_cast<short>(accepting() ? POLLIN : 0), 0});
      for (const Client& client : clients_)
        polled.push_back({client.socket.fd(),
                          static_cast<short>(client.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
      for (const Strangers* list : {&guests_, &strangers_})
        for (const Stranger& stranger : *list) polled.push_back({stranger.socket.fd(), POLLIN, 0});
      if (poll(polled.data(), polled.size(), patience()) < 0 && errno != EINTR) break;
      if (polled[0].revents != 0) clear(wakeup_);
      // Ranks first, strangers last.
      std::size_t i = 2;
      for (Client& client : clients_)
        if (const short events = polled[i++].revents; events != 0) serve(client, events);
      for (Strangers* list : {&guests_, &strangers_})
        for (auto at = list->begin(); at != list->end();) {
          const auto stranger = at++;
          if (polled[i++].revents != 0) hear(*list, stranger);
        }
      if (polled[1].revents != 0) accept_some();
      close_the_slow();
      bury();
    }
    say_closing();
  }

  /// After the system ran out of descriptors there is no hurry to fail again.
  bool accepting() const { return Clock::now() >= accept_again_; }

  int patience() const {
    const auto left = [](Deadline deadline) {
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      return static_cast<int>(std::clamp<long>(wait.count(), 0, 60'000));
    };
    int shortest = 60'000;
    for (const Strangers* list : {&guests_, &strangers_})
      if (!list->empty()) shortest = std::min(shortest, left(list->front().deadline));
    if (!accepting()) shortest = std::min(shortest, left(accept_again_) + 1);
    return shortest;
  }

  // ---- strangers --------------------------------------------------------------------------------

  void accept_some() {
    for (int i = 0; i < kAcceptsPerRound; ++i) {
      Socket socket = accept_from(listener_);
      if (!socket) {
        const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
        if (exhausted && !strangers_.empty()) {
          strangers_.pop_front();
          continue;
        }
        if (exhausted) accept_again_ = Clock::now() + std::chrono::milliseconds(100);
        return;
      }
      push(strangers_, {std::move(socket), Clock::now() + options_.handshake_timeout});
      hear(strangers_, std::prev(strangers_.end()));  // a rank's hello is mostly there already
    }
  }

  void push(Strangers& list, Stranger&& stranger) {
    if (list.size() >= options_.max_strangers) list.pop_front();
    list.push_back(std::move(stranger));
  }

  void close_the_slow() {
    for (Strangers* list : {&guests_, &strangers_})
      while (!list->empty() && Clock::now() >= list->front().deadline) list->pop_front();
  }

  void hear(Strangers& list, Strangers::iterator stranger) {
    const bool guest = &list == &guests_;
    const std::size_t owed = (guest ? kProof : kHello) - stranger->in.size();
    const Got got = receive(stranger->socket, stranger->in, owed);
    if (got == Got::nothing) return;
    if (got == Got::bytes) {
      const Heard heard = guest ? hear_proof(*stranger) : hear_hello(*stranger);
      if (heard == Heard::part) return;
      if (heard == Heard::all && guest) clients_.push_back({std::move(stranger->socket)});
      // Strangers cannot crowd out who knows the token, if by a recording.
      if (heard == Heard::all && !guest) push(guests_, std::move(*stranger));
    }
    list.erase(stranger);
  }

  enum class Heard { part, all, wrong };

  Heard hear_hello(Stranger& stranger) const {
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
    // These are the first bytes into an empty buffer: all or nothing.
    return send(stranger.socket.fd(), challenge.data(), challenge.size(), MSG_NOSIGNAL) ==
                   static_cast<ssize_t>(challenge.size())
               ? Heard::all
               : Heard::wrong;
  }

  Heard hear_proof(const Stranger& stranger) const {
    if (stranger.in.size() < kProof) return Heard::part;
    return options_.token.verifies(stranger.in, "client", stranger.nonces) ? Heard::all
                                                                           : Heard::wrong;
  }

  // ---- clients ----------------------------------------------------------------------------------

  void serve(Client& client, short events) {
    if (client.gone) return;
    if (events & POLLOUT) flush(client);
    if (!(events & (POLLIN | POLLHUP | POLLERR))) return;
    std::string bytes;
    const Got got = receive(client.socket, bytes, 1 << 14);
    const int why = errno;
    if (got == Got::nothing) return;
    if (got == Got::end)
      return lose(client, why == 0 || why == ECONNRESET
                              ? "ended without saying goodbye"
                              : concat("cannot be reached any more: ", std::strerror(why)));
    try {
      client.reader.feed(bytes);
      while (!client.gone) {
        const std::optional<StoreMessage> message = client.reader.next();
        if (!message) return;
        handle(client, *message);
      }
    } catch (const Error& error) {
      lose(client, concat("sent what is no message: ", error.what()));
    }
  }

  void handle(Client& client, const StoreMessage& message) {
    if ((message.type == StoreVerb::join) == (client.scope != nullptr))
      fail("a message out of turn");
    switch (message.type) {
      case StoreVerb::join:
        return join(client, message);
      case StoreVerb::set:
        return set(client, message);
      case StoreVerb::get:
        return get(client, message);
      case StoreVerb::add:
        return add(client, message);
      case StoreVerb::raise:
        return raise(*client.scope, client.name, message.value);
      case StoreVerb::goodbye:
        return leave(client);
      case StoreVerb::forget: {
        auto [first, last] = client.scope->waiters.equal_range(message.key);
        while (first != last) {
          const bool same = first->second.client == &client && first->second.id == message.id;
          first = same ? client.scope->waiters.erase(first) : std::next(first);
        }
        return;
      }
      default:
        fail("a message of the server's own");
    }
  }

  void join(Client& client, const StoreMessage& message) {
    RINGLET_CHECK(message.value.size() <= kLongestName, "a name of ", message.value.size(),
                  " bytes");
    client.name = message.value;
    client.scope = &scopes_[message.key];
    ++client.scope->members;
    change_count(1);
    answer(client, {.type = StoreVerb::done, .id = message.id});
    if (client.scope->alarm.type == StoreVerb::alarm) answer(client, client.scope->alarm);
  }

  void set(Client& client, const StoreMessage& message) {
    Scope& scope = *client.scope;
    const auto old = scope.values.find(message.key);
    const std::size_t less = old == scope.values.end() ? 0 : old->second.size();
    const std::size_t more = message.value.size() + (less == 0 ? message.key.size() : 0);
    if (scope.nbytes + more > kMostBytes + less)
      return answer(client, {.type = StoreVerb::refused,
                             .id = message.id,
                             .value = concat("the store is full: ", kMostBytes, " bytes")});
    scope.nbytes = scope.nbytes + more - less;
    scope.values[message.key] = message.value;
    answer(client, {.type = StoreVerb::done, .id = message.id});
    const auto [first, last] = scope.waiters.equal_range(message.key);
    std::vector<Scope::Waiter> waiters;
    for (auto at = first; at != last; ++at) waiters.push_back(at->second);
    scope.waiters.erase(first, last);
    for (const Scope::Waiter& waiter : waiters)
      answer(*waiter.client, {.type = StoreVerb::done, .id = waiter.id, .value = message.value});
  }

  void get(Client& client, const StoreMessage& message) {
    const auto found = client.scope->values.find(message.key);
    if (found == client.scope->values.end())
      client.scope->waiters.insert({message.key, {&client, message.id}});
    else
      answer(client, {.type = StoreVerb::done, .id = message.id, .value = found->second});
  }

  void add(Client& client, const StoreMessage& message) {
    const std::int64_t sum = client.scope->counters[message.key] += message.number;
    answer(client, {.type = StoreVerb::done, .id = message.id, .number = sum});
  }

  /// The first cause is everybody's, those who join later included.
  void raise(Scope& scope, const std::string& who, const std::string& cause) {
    if (scope.alarm.type == StoreVerb::alarm) return;
    scope.alarm = {.type = StoreVerb::alarm, .key = who, .value = cause};
    for (Client& client : clients_)
      if (client.scope == &scope) answer(client, scope.alarm);
  }

  void lose(Client& client, const std::string& what) {
    Scope* scope = client.scope;
    const std::string name = client.name;
    leave(client);
    if (scope != nullptr) raise(*scope, name, name + ' ' + what);
  }

  void leave(Client& client) {
    if (client.gone) return;
    client.gone = true;
    if (Scope* scope = std::exchange(client.scope, nullptr)) {
      std::erase_if(scope->waiters,
                    [&](const auto& waiter) { return waiter.second.client == &client; });
      --scope->members;
      change_count(-1);
    }
  }

  /// Closes those that are gone, and drops what nobody shares any more.
  void bury() {
    std::erase_if(clients_, [](const Client& client) { return client.gone; });
    std::erase_if(scopes_, [](const auto& scope) { return scope.second.members == 0; });
  }

  void answer(Client& client, const StoreMessage& message) {
    if (client.gone) return;
    client.out += encode(message);
    flush(client);
  }

  void flush(Client& client) {
    while (!client.out.empty()) {
      const ssize_t n =
          send(client.socket.fd(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) break;  // what ended the connection is seen when it is read
      client.out.erase(0, static_cast<std::size_t>(n));
    }
    if (client.out.size() > kMostUnsent) lose(client, "does not read what it asked for");
  }

  void say_closing() {
    const std::string closing = encode({.type = StoreVerb::closing});
    const Deadline deadline = Clock::now() + kFlush;
    for (Client& client : clients_)
      static_cast<void>(send_all(client.socket, client.out + closing, deadline));
  }

  void change_count(int by) {
    const std::lock_guard lock(count_mutex_);
    joined_ += by;
    count_changed_.notify_all();
  }

  const TcpStoreServerOptions options_;
  Socket wakeup_;
  Socket listener_;
  Strangers strangers_;
  Strangers guests_;  // whose hello was good; they owe the proof
  std::list<Client> clients_;
  std::map<std::string, Scope> scopes_;
  Deadline accept_again_{};
  mutable std::mutex count_mutex_;
  mutable std::condition_variable count_changed_;
  int joined_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void require_token_beyond_loopback(const std::string& host, const Token& token) {
  if (token.empty() && (host.empty() || !is_loopback(host)))
    fail_input("RINGLET_TOKEN: expected a secret that all hosts know (or RINGLET_TOKEN_FILE), as ",
               host.empty() ? "*" : host, " is open to strangers");
}

std::string host_to_listen_at(const std::string& host, const Token& token) {
  return token.empty() || host == "localhost" || is_numeric_address(host) ? host : "";
}

TcpStoreServer::TcpStoreServer(const TcpStoreServerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
TcpStoreServer::~TcpStoreServer() = default;
int TcpStoreServer::port() const { return impl_->port(); }
bool TcpStoreServer::wait_for_goodbyes(Timeout timeout, int remaining) const {
  return impl_->wait_for_goodbyes(timeout, remaining);
}

}  // namespace ringlet::comm
