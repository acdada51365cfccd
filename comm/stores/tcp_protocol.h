// The messages between the two sides of the TCP store, after their handshake.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/stores/tcp_store.h"

namespace ringlet::comm {

inline constexpr std::size_t kLongestKey = 4096;
inline constexpr std::size_t kLongestValue = 1 << 20;

enum class StoreVerb : std::uint8_t {
  join,     // client: value = its name
  set,      // client: key, value                    answered by done
  get,      // client: key, number = milliseconds that it waits
            //                                       answered by done with the value, once it is set
  add,      // client: key, number                   answered by done with the new number
  raise,    // client: value = the cause             answered by alarm
  goodbye,  // client: leaves in order; the server closes the connection
  done,     // server: answers `id`
  refused,  // server: answers `id`, value = why it was not done
  alarm,    // server: value = the first cause, key = the name of the client that raised it
  closing,  // server: will close the connection in order
};

struct StoreMessage {
  StoreVerb type = StoreVerb::join;
  std::uint64_t id = 0;  // of the request; answers repeat it
  std::int64_t number = 0;
  std::string key = {};
  std::string value = {};
};

/// Error if key or value is too long.
std::string encode(const StoreMessage& message);
/// Takes the first message off the received bytes, once it is whole. Error on bytes that encode()
/// never makes.
std::optional<StoreMessage> take_message(std::string& bytes);

/// InputError unless there is a token or all addresses of `host` are loopback.
void require_token_beyond_loopback(const std::string& host, const Token& token);

/// A client's connection, after the handshake. Waits for the server; errors as join_tcp_store().
Socket connect_to_store(const TcpStoreOptions& options);

}  // namespace ringlet::comm
