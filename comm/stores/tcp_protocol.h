// The protocol between the two sides of the TCP store.
//
// The handshake comes before any other byte of the server. Both nonces, C and S, are fresh:
//   client -> server   magic, C, sign("hello", C)
//   server -> client   S, sign("server", C S)       only if the hello was signed with the token
//   client -> server   sign("client", C S)          proves that the hello was no recording
// A client that does not know the token receives no byte. After the handshake both sides send
// messages; they are neither secret nor signed, like the tensors that ranks exchange.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ringlet/comm/store.h"
#include "ringlet/comm/stores/socket.h"
#include "ringlet/comm/token.h"

namespace ringlet::comm {

inline constexpr std::string_view kMagic = "ringlet2";
inline constexpr std::size_t kNonce = 32;
inline constexpr std::size_t kHello = kMagic.size() + kNonce + Token::kSigned;
inline constexpr std::size_t kChallenge = kNonce + Token::kSigned;
inline constexpr std::size_t kProof = Token::kSigned;
/// Each side closes a connection when its handshake takes longer.
inline constexpr auto kHandshake = std::chrono::seconds(5);
/// A wait for another host is reported after this time.
inline constexpr auto kPatience = std::chrono::seconds(5);

/// InputError unless there is a token or all addresses of `host` are loopback.
void require_token_beyond_loopback(const std::string& host, const Token& token);

/// The client's side: waits for the server and proves to know the token. Error that names the
/// server if none answers in time, or one with another token; InputError beyond loopback without a
/// token.
/// `on_wait` is called once, with the reason, when none has answered for kPatience; it may be
/// empty.
Socket connect_to_store(const std::string& host, int port, const Token& token, Timeout timeout,
                        std::function<void(const std::string& why)> on_wait = {});

/// The longest silence of a side is divided into so many signs of life. Missed ones in a row are
/// counted, not timed: if both sides stood still, only one is missed.
inline constexpr int kSignsOfLife = 4;

inline constexpr std::size_t kLongestKey = 4096;
inline constexpr std::size_t kLongestValue = 1 << 20;

enum class StoreVerb : std::uint8_t {
  join,     // client: key = its scope of keys and alarm, value = its name, number =
            // milliseconds without a message that make it silent; 0: no limit
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

}  // namespace ringlet::comm
