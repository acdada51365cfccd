#include "ringlet/core/base/quote.h"

namespace ringlet {
namespace {

constexpr std::string_view kEllipsis = "...";

bool continues(char byte) { return (byte & 0xC0) == 0x80; }

/// The bytes after the first of a valid UTF-8 character of several; 0 at any other byte.
std::size_t continuation_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC2 || first > 0xF4 || text.size() <= more) return 0;
  for (std::size_t i = 1; i <= more; ++i)
    if (!continues(text[i])) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F;
  return overlong || surrogate || (first == 0xF4 && second > 0x8F) ? 0 : more;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line(text);
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (const std::size_t more = continuation_bytes(text.substr(i)); more > 0) {
      // U+0080 to U+009F, which include a line break of Unicode.
      if (line[i] == '\xC2' && (line[i + 1] & 0xE0) == 0x80) line[i] = line[i + 1] = '?';
      i += more;
      continue;
    }
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte < 0x20 || byte >= 0x7F) line[i] = '?';
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
