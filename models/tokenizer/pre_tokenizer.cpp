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

}  // namespace

bool BertPreTokenizer::next(std::string_view& word) {
  while (position_ < text_.size()) {
    const std::size_t start = position_;
    Character kind = step(text_, position_);
    if (kind == Character::kSpace) continue;
    std::size_t end = position_;
    while (kind == Character::kLetter && position_ < text_.size()) {
      end = position_;
      kind = step(text_, position_);
      if (kind == Character::kLetter) end = position_;
    }
    position_ = end;
    word = text_.substr(start, end - start);
    return true;
  }
  return false;
}

void Metaspace::append_word(std::string_view word, bool first, Words& words) const {
  if (word.empty()) return;
  const bool marked = word.starts_with(replacement) || word.starts_with(' ');
  if (!marked && (prepend == Prepend::always || (prepend == Prepend::first && first)))
    words.text += replacement;
  for (std::size_t i = 0; i < word.size();) {
    const bool mark = word[i] == ' ' || word.substr(i).starts_with(replacement);
    if (mark && split && i > 0) words.end_word();
    const std::size_t nbytes = mark && word[i] != ' ' ? replacement.size() : 1;
    words.text += mark ? std::string_view(replacement) : word.substr(i, 1);
    i += nbytes;
  }
  words.end_word();
}

void Metaspace::append(std::string_view text, bool first, Words& words) const {
  if (!at_whitespace) return append_word(text, first, words);
  std::size_t start = 0;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t end = position;
    if (!unicode::is_whitespace(unicode::next(text, position))) continue;
    append_word(text.substr(start, end - start), first && start == 0, words);
    start = position;
  }
  append_word(text.substr(start), first && start == 0, words);
}

}  // namespace ringlet::models
