// Text from outside: names in files, cells of tables, arguments. Its form for messages, numbers,
// and suggestions for a misspelt name.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ringlet {

/// The text in one line: '?' for each byte of a control character, and each one that is not UTF-8.
std::string one_line(std::string_view text);
/// One line of at most `longest` bytes; "..." replaces the rest. No UTF-8 character is cut.
std::string shown(std::string_view text, std::size_t longest = 80);
/// shown() in single quotes.
std::string quote(std::string_view text);

/// The whole text as a number; nothing if it is none or does not fit T.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// The known names with the fewest edits (a letter inserted, dropped, changed or swapped), if those
/// are at most a third of the name's length; empty otherwise.
std::vector<std::string> nearest(std::string_view name, std::span<const std::string> known);

}  // namespace ringlet
