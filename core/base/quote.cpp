#include "ringlet/core/base/quote.h"

namespace ringlet {
namespace {

constexpr std::string_view kEllipsis = "...";

bool continues(char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

std::string one_line(std::string_view text) {
  std::string line(text);
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte < 0x20 || byte == 0x7F) line[i] = '?';
    // U+0080 to U+009F, which include a line break of Unicode.
    if (byte == 0xC2 && i + 1 < line.size() && (line[i + 1] & 0xE0) == 0x80)
      line[i] = line[i + 1] = '?';
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
