#include "ringlet/train/data/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ringlet::train {
namespace {

struct CodePoint {
  std::int32_t value;  // -1 where the bytes are no code point
  std::size_t nbytes;
};

CodePoint first_code_point(std::string_view text) {
  utf8proc_int32_t value = -1;
  const utf8proc_ssize_t nbytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &value);
  return {value, static_cast<std::size_t>(std::max<utf8proc_ssize_t>(nbytes, 1))};
}

CodePoint last_code_point(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && (text[begin] & 0xC0) == 0x80) --begin;
  const CodePoint point = first_code_point(text.substr(begin));
  if (point.nbytes == text.size() - begin) return point;
  return {-1, 1};
}

/// The code points for which Python's str.isspace() holds.
bool is_space(std::int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

}  // namespace

std::string_view strip(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (!is_space(point.value)) break;
    text.remove_prefix(point.nbytes);
  }
  while (!text.empty()) {
    const CodePoint point = last_code_point(text);
    if (!is_space(point.value)) break;
    text.remove_suffix(point.nbytes);
  }
  return text;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      text.remove_prefix(1);
      continue;
    }
    const CodePoint point = first_code_point(text);
    if (point.value < 0) return false;
    text.remove_prefix(point.nbytes);
  }
  return true;
}

}  // namespace ringlet::train
