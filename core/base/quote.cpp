#include "ringlet/core/base/quote.h"

namespace ringlet {
namespace {

constexpr std::string_view kEllipsis = "...";

bool continues(char byte) { return (byte & 0xC0) == 0x80; }

/// Bytes of the UTF-8 character at `i`; 0 if there is none.
std::size_t character_at(std::string_view text, std::size_t i) {
  const auto first = static_cast<unsigned char>(text[i]);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xC2 && first < 0xE0 ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length > text.size() - i) return 0;
  for (std::size_t k = 1; k < length; ++k)
    if (!continues(text[i + k])) return 0;
  return length;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line(text);
  for (std::size_t i = 0; i < line.size();) {
    const auto byte = static_cast<unsigned char>(line[i]);
    const std::size_t length = character_at(line, i);
    if (byte < 0x20 || byte == 0x7F || length == 0) line[i] = '?';
    // U+0080 to U+009F, which include a line break of Unicode.
    if (byte == 0xC2 && length == 2 && (line[i + 1] & 0xE0) == 0x80) line[i] = line[i + 1] = '?';
    i += length == 0 ? 1 : length;
  }
  return line;
}

std::string shown(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return one_line(text);
  std::size_t end = longest - kEllipsis.size();
  for (int back = 0; back < 3 && continues(text[end]); ++back) --end;
  return one_line(text.substr(0, end)).append(kEllipsis);
}

std::string quote(std::string_view text) { return "'" + shown(text) + "'"; }

}  // namespace ringlet
