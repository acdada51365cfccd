#include "ringlet/models/tokenizer/pre_tokenizer.h"

#include <array>

#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {
namespace {

enum class Character : unsigned char { kLetter, kSpace, kPunctuation };

Character classify(char32_t c) {
  if (unicode::is_whitespace(c)) return Character::kSpace;
  return unicode::is_punctuation(c) ? Character::kPunctuation : Character::kLetter;
}

/// The class of the character at `position`; advances past it.
Character step(std::string_view text, std::size_t& position) {
  static const auto kAscii = [] {
    std::array<Character, 0x80> kinds{};
    for (std::size_t c = 0; c < kinds.size(); ++c) kinds[c] = classify(static_cast<char32_t>(c));
    return kinds;
  }();
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte >= 0x80) return classify(unicode::next(text, position));
  ++position;
  return kAscii[byte];
}

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

}  // namespace

void BertSplit::for_words(std::string_view text, bool /*first*/, const OnWord& on_word) const {
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t start = position;
    Character kind = step(text, position);
    if (kind == Character::kSpace) continue;
    std::size_t end = position;
    while (kind == Character::kLetter && position < text.size()) {
      end = position;
      kind = step(text, position);
      if (kind == Character::kLetter) end = position;
    }
    position = end;
    on_word(text.substr(start, end - start));
  }
}

void Metaspace::for_marked(std::string_view text, bool first, const OnWord& on_word) const {
  if (text.empty()) return;
  std::string word;
  const bool marked = text.starts_with(replacement) || text.starts_with(' ');
  if (!marked && (prepend == Prepend::always || (prepend == Prepend::first && first)))
    word = replacement;
  for (std::size_t i = 0; i < text.size();) {
    const bool mark = text[i] == ' ' || text.substr(i).starts_with(replacement);
    if (mark && split && i > 0) {
      on_word(word);
      word.clear();
    }
    const std::size_t nbytes = mark && text[i] != ' ' ? replacement.size() : 1;
    word += mark ? std::string_view(replacement) : text.substr(i, 1);
    i += nbytes;
  }
  on_word(word);
}

void Metaspace::for_words(std::string_view text, bool first, const OnWord& on_word) const {
  if (!at_whitespace) return for_marked(text, first, on_word);
  std::size_t start = 0;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t end = position;
    if (!unicode::is_whitespace(unicode::next(text, position))) continue;
    for_marked(text.substr(start, end - start), first && start == 0, on_word);
    start = position;
  }
  for_marked(text.substr(start), first && start == 0, on_word);
}

void ByteLevel::for_words(std::string_view text, bool /*first*/, const OnWord& on_word) const {
  if (text.empty()) return;
  const bool prefix = add_prefix_space && !text.starts_with(' ');
  const std::string spaced = prefix ? " " + std::string(text) : std::string();
  if (prefix) text = spaced;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = use_regex ? word_end(text, begin) : text.size();
    std::string word;
    for (const char byte : text.substr(begin, end - begin))
      unicode::append(characters()[static_cast<unsigned char>(byte)], word);
    on_word(word);
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
