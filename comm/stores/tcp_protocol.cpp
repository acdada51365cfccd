#include "ringlet/comm/stores/tcp_protocol.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>
#include <utility>

#include "ringlet/comm/stores/handshake.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");

/// A flooded server may close any unauthenticated connection; after this time the token is wrong.
constexpr auto kClosedInHandshake = std::chrono::seconds(3);
/// A wait for the server is reported after this time.
constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kFirstNap = std::chrono::milliseconds(5);
constexpr auto kLongestNap = std::chrono::milliseconds(200);

struct Header {
  std::uint64_t type;
  std::uint64_t id;
  std::int64_t number;
  std::uint64_t key;  // bytes
  std::uint64_t value;
};

void check_lengths(std::size_t key, std::size_t value) {
  RINGLET_CHECK(key <= kLongestKey, "[store] a key of ", key, " bytes; at most ", kLongestKey);
  RINGLET_CHECK(value <= kLongestValue, "[store] a value of ", value, " bytes; at most ",
                kLongestValue);
}

}  // namespace

std::string encode(const StoreMessage& message) {
  check_lengths(message.key.size(), message.value.size());
  const Header header{static_cast<std::uint64_t>(message.type), message.id, message.number,
                      message.key.size(), message.value.size()};
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + message.key +
         message.value;
}

std::optional<StoreMessage> take_message(std::string& bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  RINGLET_CHECK(header.type <= static_cast<std::uint64_t>(StoreVerb::closing),
                "[store] a message of unknown type ", header.type);
  check_lengths(header.key, header.value);
  if (bytes.size() < sizeof(header) + header.key + header.value) return std::nullopt;
  StoreMessage message{static_cast<StoreVerb>(header.type), header.id, header.number,
                       bytes.substr(sizeof(header), header.key),
                       bytes.substr(sizeof(header) + header.key, header.value)};
  bytes.erase(0, sizeof(header) + header.key + header.value);
  return message;
}

void require_token_beyond_loopback(const std::string& host, const Token& token) {
  if (token.empty() && (host.empty() || !is_loopback(host)))
    fail_input("RINGLET_TOKEN: expected a secret that all hosts know (or RINGLET_TOKEN_FILE), as ",
               host.empty() ? "*" : host, " accepts connections of any host");
}

Socket connect_to_store(const TcpStoreOptions& options) {
  const auto& [host, port, token, name, timeout, on_wait] = options;
  require_token_beyond_loopback(host, token);
  const std::string store = str("[store] ", host, ':', port, ": ");
  const Deadline start = Clock::now(), deadline = start + timeout;
  bool reported = !on_wait;
  std::optional<Deadline> refused_until;
  for (auto nap = kFirstNap;; nap = std::min(2 * nap, kLongestNap)) {
    std::string why;
    const Deadline patience = reported ? deadline : std::min(deadline, start + kPatience);
    Socket socket = connect_to(host, port, patience, why);
    if (socket) {
      try {
        if (prove_to_server(socket, token, 0, std::min(deadline, Clock::now() + kHandshake), why))
          return socket;
      } catch (const Error& error) {
        fail(store, error.what());
      }
      if (!refused_until) refused_until = Clock::now() + kClosedInHandshake;
    }
    const auto now = Clock::now();
    if (socket && now >= *refused_until) fail(store, why);
    if (now >= deadline) fail(store, "no answer within ", seconds_of(timeout), " s: ", why);
    if (now >= start + kPatience && !std::exchange(reported, true)) on_wait(why);
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace ringlet::comm
