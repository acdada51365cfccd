// The state of a TCP store's server: its clients, and the scopes that they have joined. One thread
// uses it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ringlet/comm/stores/tcp_protocol.h"

namespace ringlet::comm {

struct StoreScope;

inline constexpr std::size_t kMostBytes = 256 << 20;  // of all values of a scope
inline constexpr std::size_t kMostUnsent = 64 << 20;  // to one client

/// One connection. Until it has proved to know the token it costs at most kHello bytes.
struct StoreClient {
  Socket socket;
  Deadline deadline;        // of its proof
  std::string nonces = {};  // C S, once its hello was valid
  bool authenticated = false;
  std::string in = {};
  std::string out = {};         // not sent yet
  std::string name = {};        // "rank 2 (pid 77, host a)"
  StoreScope* scope = nullptr;  // once it has joined
  bool gone = false;
  Timeout silence = Timeout::zero();  // longest time without a message; 0: no limit
  int missed = 0;                     // signs of life
  Deadline next_sign = {};

  void mark_alive() {
    missed = 0;
    next_sign = std::chrono::steady_clock::now() + silence / kSignsOfLife;
  }
  /// Counts an overdue sign of life; true once more of them are missing in a row than allowed.
  bool silent() {
    if (silence == Timeout::zero() || std::chrono::steady_clock::now() < next_sign) return false;
    next_sign = std::chrono::steady_clock::now() + silence / kSignsOfLife;
    return ++missed > kSignsOfLife;
  }
  void flush() { out.erase(0, send_until(socket, out, Deadline())); }  // reading finds errors
  /// The client requests and does not read the answers; it receives no more of them.
  bool stuck() const { return out.size() > kMostUnsent; }
  void answer(const StoreMessage& message) {
    if (gone || stuck()) return;
    out += encode(message);
    flush();
  }
};

/// The keys and the alarm that clients share: those of a world of ranks, or of a job's launchers.
struct StoreScope {
  struct Waiter {
    StoreClient* client;
    std::uint64_t id;
    Deadline deadline;
  };
  std::map<std::string, std::string> values;
  std::size_t nbytes = 0;  // of keys and values
  std::map<std::string, std::int64_t> counters;
  std::multimap<std::string, Waiter> waiters;
  StoreMessage alarm;

  bool raised() const { return alarm.type == StoreVerb::alarm; }
  /// False, without effect, if the scope is full.
  bool set(const StoreMessage& message) {
    const auto old = values.find(message.key);
    const std::size_t before = old == values.end() ? 0 : old->first.size() + old->second.size();
    const std::size_t after = nbytes - before + message.key.size() + message.value.size();
    if (after > kMostBytes) return false;
    nbytes = after;
    values[message.key] = message.value;
    const auto [first, last] = waiters.equal_range(message.key);
    for (auto at = first; at != last; ++at)
      at->second.client->answer(
          {.type = StoreVerb::done, .id = at->second.id, .value = message.value});
    waiters.erase(first, last);
    return true;
  }
};

}  // namespace ringlet::comm
