#include "ringlet/comm/stores/tcp_protocol.h"

#include <bit>
#include <cstring>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");

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

}  // namespace ringlet::comm
