#include "ringlet/models/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/models/tokenizer/unicode_ranges.h"

namespace ringlet::models::unicode {
namespace {

template <std::size_t n>
bool contains(const Range (&ranges)[n], char32_t c) {
  const auto* range = std::partition_point(std::begin(ranges), std::end(ranges),
                                           [c](const Range& r) { return r.last < c; });
  return range != std::end(ranges) && range->first <= c;
}

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

/// A code point of the same class for grapheme clusters, in every release of utf8proc.
utf8proc_int32_t cluster_class(char32_t c) {
  return contains(kMoreExtenders, c) ? 0x300 : static_cast<utf8proc_int32_t>(c);
}

}  // namespace

char32_t next(std::string_view text, std::size_t& position) {
  if (const auto ascii = static_cast<unsigned char>(text[position]); ascii < 0x80) {
    ++position;
    return ascii;
  }
  utf8proc_int32_t c = 0;
  const auto nbytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + position),
                       static_cast<utf8proc_ssize_t>(text.size() - position), &c);
  position += nbytes > 0 ? static_cast<std::size_t>(nbytes) : 1;
  return nbytes > 0 ? static_cast<char32_t>(c) : kReplacement;
}

char32_t previous(std::string_view text, std::size_t& position) {
  const std::size_t end = position--;
  std::size_t start = position;
  while (start > 0 && end - start < 4 && is_continuation(static_cast<unsigned char>(text[start]))) {
    --start;
  }
  std::size_t stop = start;
  const char32_t c = next(text, stop);
  if (stop != end) return kReplacement;
  position = start;
  return c;
}

void append(char32_t c, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const auto nbytes = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(nbytes));
}

std::string valid(std::string_view text) {
  if (is_valid(text)) return std::string(text);
  std::string out;
  for (std::size_t position = 0; position < text.size();) append(next(text, position), out);
  return out;
}

bool is_valid(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t start = position;
    if (next(text, position) == kReplacement && position - start == 1) return false;
  }
  return true;
}

std::size_t cluster_end(std::string_view text, std::size_t position) {
  char32_t c = next(text, position);
  // Two ASCII characters form no cluster, except for CR LF.
  const auto ascii = [](char32_t x) { return x < 0x80 && x != '\r'; };
  utf8proc_int32_t state = 0;
  while (position < text.size()) {
    std::size_t after = position;
    const char32_t following = next(text, after);
    if (ascii(c) && ascii(following)) break;
    if (utf8proc_grapheme_break_stateful(cluster_class(c), cluster_class(following), &state)) break;
    position = after;
    c = following;
  }
  return position;
}

std::size_t length(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t position = 0; position < text.size(); ++count) next(text, position);
  return count;
}

bool is_whitespace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::size_t skip_whitespace(std::string_view text, std::size_t position) {
  for (std::size_t after = position; position < text.size(); position = after)
    if (!is_whitespace(next(text, after))) break;
  return position;
}

std::size_t skip_whitespace_before(std::string_view text, std::size_t position) {
  for (std::size_t before = position; position > 0; position = before)
    if (!is_whitespace(previous(text, before))) break;
  return position;
}

bool is_punctuation(char32_t c) {
  if (c >= 0x80) return contains(kPunctuation, c);
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) ||
         (c >= 0x7B && c <= 0x7E);
}

bool is_control(char32_t c) {
  if (c < 0x80) return (c < 0x20 || c == 0x7F) && c != '\t' && c != '\n' && c != '\r';
  return contains(kOther, c);
}

bool is_cjk(char32_t c) {
  // U+2B820-2B91F are missing in the published definition, hence here, too.
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_letter(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         contains(kMoreLetters, c);
}

bool is_number(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) ||
         contains(kMoreNumbers, c);
}

bool is_word(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return contains(kMoreWords, c);
  }
}

std::string without_accents(std::string_view text) {
  std::vector<utf8proc_int32_t> parts(2 * text.size());  // no character has more than 2 per byte
  const auto count =
      utf8proc_decompose(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                         static_cast<utf8proc_ssize_t>(text.size()), parts.data(),
                         static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_DECOMPOSE);
  RINGLET_CHECK(count >= 0, "[without_accents] ", utf8proc_errmsg(count));
  parts.resize(static_cast<std::size_t>(count));
  std::string out;
  for (const utf8proc_int32_t part : parts)
    if (const auto c = static_cast<char32_t>(part); c < 0x300 || !contains(kNonspacingMark, c))
      append(c, out);
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for (std::size_t position = 0; position < text.size();) {
    const char32_t c = next(text, position);
    if (c == 0x130)
      out += "i\xCC\x87";  // the dot above remains a separate mark
    else
      append(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
  return out;
}

}  // namespace ringlet::models::unicode
