// Text from outside, in the form for messages: names in files, cells of tables, arguments.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ringlet {

/// The text in one line: '?' for each byte of a control character, and each one that is not UTF-8.
std::string one_line(std::string_view text);
/// One line of at most `longest` bytes; "..." replaces the rest. No UTF-8 character is cut.
std::string shown(std::string_view text, std::size_t longest = 80);
/// shown() in single quotes.
std::string quote(std::string_view text);

}  // namespace ringlet
