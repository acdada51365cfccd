#include "ringlet/models/tokenizer/byte_level.h"

#include <array>

#include "ringlet/models/tokenizer/unicode.h"
#include "ringlet/models/tokenizer/words.h"

namespace ringlet::models {
namespace {

enum class Sign { space, letter, number, other };

Sign sign_of(char32_t c) {
  if (unicode::is_whitespace(c)) return Sign::space;
  if (unicode::is_letter(c)) return Sign::letter;
  return unicode::is_number(c) ? Sign::number : Sign::other;
}

/// The sign at `position`; advances past it.
Sign next_sign(std::string_view text, std::size_t& position) {
  return sign_of(unicode::next(text, position));
}

/// Where the run of `sign` that begins at `position` ends.
std::size_t run_end(std::string_view text, std::size_t position, Sign sign) {
  for (std::size_t after = position; position < text.size(); position = after)
    if (next_sign(text, after) != sign) break;
  return position;
}

/// Where the word that begins at `begin` ends.
std::size_t word_end(std::string_view text, std::size_t begin) {
  for (const std::string_view contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.substr(begin).starts_with(contraction)) return begin + contraction.size();
  std::size_t first = begin + (text[begin] == ' ' ? 1 : 0), after = first;
  if (first < text.size())
    if (const Sign sign = next_sign(text, after); sign != Sign::space)
      return run_end(text, first, sign);
  // White space, but the last of several belongs to the word behind it.
  const std::size_t end = run_end(text, begin, Sign::space);
  std::size_t last = end;
  if (end < text.size()) unicode::previous(text, last);
  return last > begin ? last : end;
}

/// Printable Latin-1 stands for itself, the other bytes for U+0100 and up, in their order.
const std::array<char32_t, 256>& characters() {
  static const auto kTable = [] {
    std::array<char32_t, 256> table{};
    char32_t next = 256;
    for (std::size_t b = 0; b < table.size(); ++b) {
      const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      table[b] = itself ? static_cast<char32_t>(b) : next++;
    }
    return table;
  }();
  return kTable;
}

void append_bytes(std::string_view bytes, std::string& out) {
  for (const char byte : bytes)
    unicode::append(characters()[static_cast<unsigned char>(byte)], out);
}

}  // namespace

void ByteLevel::append(std::string_view text, Words& words) const {
  if (text.empty()) return;
  const bool prefix = add_prefix_space && !text.starts_with(' ');
  const std::string spaced = prefix ? " " + std::string(text) : std::string();
  if (prefix) text = spaced;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = use_regex ? word_end(text, begin) : text.size();
    append_bytes(text.substr(begin, end - begin), words.text);
    words.end_word();
    begin = end;
  }
}

void ByteLevel::decode(std::string_view piece, std::string& bytes) {
  static const auto kBytes = [] {
    std::array<int, 512> table;
    table.fill(-1);
    for (std::size_t b = 0; b < 256; ++b) table[characters()[b]] = static_cast<int>(b);
    return table;
  }();
  const std::size_t start = bytes.size();
  for (std::size_t i = 0; i < piece.size();) {
    const char32_t c = unicode::next(piece, i);
    if (c >= kBytes.size() || kBytes[c] < 0) {
      bytes.resize(start);
      bytes += piece;
      return;
    }
    bytes.push_back(static_cast<char>(kBytes[c]));
  }
}

}  // namespace ringlet::models
