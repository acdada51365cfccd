// Numbers in text from outside.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace ringlet {

/// The whole text as a number; nothing if it is none or does not fit T.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace ringlet
