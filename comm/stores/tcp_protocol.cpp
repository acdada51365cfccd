#include "ringlet/comm/stores/tcp_protocol.h"

#include <bit>
#include <cstring>

#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers travel as they lie in memory");

// type, id, number, length of the key, length of the value
constexpr std::size_t kHeader = 1 + 8 + 8 + 4 + 4;

template <class T>
void put(std::string& bytes, T number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

template <class T>
T take(const char*& bytes) {
  T number;
  std::memcpy(&number, bytes, sizeof(number));
  bytes += sizeof(number);
  return number;
}

void check_lengths(std::size_t key, std::size_t value) {
  RINGLET_CHECK(key <= kLongestKey, "[store] a key of ", key, " bytes; at most ", kLongestKey);
  RINGLET_CHECK(value <= kLongestValue, "[store] a value of ", value, " bytes; at most ",
                kLongestValue);
}

}  // namespace

std::string encode(const StoreMessage& message) {
  check_lengths(message.key.size(), message.value.size());
  std::string bytes;
  bytes.reserve(kHeader + message.key.size() + message.value.size());
  put(bytes, message.type);
  put(bytes, message.id);
  put(bytes, message.number);
  put(bytes, static_cast<std::uint32_t>(message.key.size()));
  put(bytes, static_cast<std::uint32_t>(message.value.size()));
  return bytes += message.key, bytes += message.value;
}

std::optional<StoreMessage> StoreMessageReader::next() {
  const std::size_t have = bytes_.size() - begin_;
  if (have < kHeader) return std::nullopt;
  const char* at = bytes_.data() + begin_;
  const auto type = take<std::uint8_t>(at);
  RINGLET_CHECK(type <= static_cast<std::uint8_t>(StoreVerb::closing),
                "[store] a message of unknown type ", int{type});
  StoreMessage message{.type = static_cast<StoreVerb>(type)};
  message.id = take<std::uint64_t>(at);
  message.number = take<std::int64_t>(at);
  const auto key = take<std::uint32_t>(at);
  const auto value = take<std::uint32_t>(at);
  check_lengths(key, value);
  if (have < kHeader + key + value) return std::nullopt;
  message.key.assign(at, key);
  message.value.assign(at + key, value);
  begin_ += kHeader + key + value;
  if (begin_ == bytes_.size() || begin_ > kLongestValue) {
    bytes_.erase(0, begin_);
    begin_ = 0;
  }
  return message;
}

}  // namespace ringlet::comm
