#include "ringlet/core/base/quote.h"

#include <utf8proc.h>

#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/names.h"

namespace ringlet {
namespace {

constexpr std::string_view kEllipsis = "...";

bool continues(char byte) { return (byte & 0xC0) == 0x80; }

/// The bytes after the first of a valid UTF-8 character of several; 0 at any other byte.
std::size_t continuation_bytes(std::string_view text) {
  utf8proc_int32_t character = 0;
  const auto nbytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &character);
  return nbytes > 1 ? static_cast<std::size_t>(nbytes) - 1 : 0;
}

/// Edits from a to b; a swap of two neighbours counts as one (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * width + j];
  };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
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

std::vector<std::string> nearest(std::string_view name, std::span<const std::string> known) {
  std::vector<std::string> best;
  std::size_t fewest = name.size() / 3;
  for (const std::string& candidate : known) {
    const std::size_t edits = distance(name, candidate);
    if (edits > fewest) continue;
    if (edits < fewest) best.clear();
    fewest = edits;
    best.push_back(candidate);
  }
  return best;
}

std::size_t find_name(const char* what, std::string_view name,
                      std::span<const std::string_view> names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    fail_input("unknown ", what, ' ', quote(name), "; expected ", list_names(names));
  return static_cast<std::size_t>(found - names.begin());
}

std::string list_names(std::span<const std::string_view> names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i)
    list += str(i == 0 ? "" : i + 1 < names.size() ? ", " : " or ", names[i]);
  return list;
}

}  // namespace ringlet
