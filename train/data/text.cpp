#include "ringlet/train/data/text.h"

#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::train {
namespace {

namespace unicode = models::unicode;

/// The code points for which Python's str.isspace() holds.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

}  // namespace

std::string_view strip(std::string_view text) {
  for (std::size_t next = 0; !text.empty() && is_space(unicode::next(text, next)); next = 0)
    text.remove_prefix(next);
  for (std::size_t last = text.size(); last > 0 && is_space(unicode::previous(text, last));)
    text = text.substr(0, last);
  return text;
}

}  // namespace ringlet::train
