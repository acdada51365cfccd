#include "ringlet/models/tokenizer/tokenizer_model.h"

#include <algorithm>

#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {
namespace {

unsigned char first_byte(std::string_view text) { return static_cast<unsigned char>(text[0]); }

bool is_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (std::size_t at = begin; begin > 0 && unicode::is_word(unicode::previous(text, at)))
    return false;
  return end == text.size() || !unicode::is_word(unicode::next(text, end));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(const std::vector<AddedToken>& tokens, bool normalized,
                                     const Normalizer& normalizer) {
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    std::string text;
    normalized ? normalize(normalizer, token.content, text) : void(text = token.content);
    if (text.empty()) continue;
    patterns_.push_back({std::move(text), token.id, token.single_word, token.lstrip, token.rstrip});
  }
  std::stable_sort(patterns_.begin(), patterns_.end(), [](const Pattern& a, const Pattern& b) {
    if (a.text[0] != b.text[0]) return first_byte(a.text) < first_byte(b.text);
    return a.text.size() > b.text.size();
  });
  for (const Pattern& pattern : patterns_) ++first_[first_byte(pattern.text) + 1u];
  for (std::size_t byte = 1; byte < first_.size(); ++byte) first_[byte] += first_[byte - 1];
}

const AddedTokenMatcher::Pattern* AddedTokenMatcher::longest_at(std::string_view text,
                                                                std::size_t position) const {
  const unsigned char byte = first_byte(text.substr(position));
  for (std::uint32_t i = first_[byte]; i < first_[byte + 1u]; ++i) {
    if (text.substr(position).starts_with(patterns_[i].text)) return &patterns_[i];
  }
  return nullptr;
}

bool AddedTokenMatcher::next(std::string_view text, Match& match) const {
  if (patterns_.empty()) return false;
  for (std::size_t position = match.found_end; position < text.size(); ++position) {
    const Pattern* pattern = longest_at(text, position);
    if (pattern == nullptr) continue;
    const std::size_t end = position + pattern->text.size();
    if (!pattern->single_word || is_alone(text, position, end)) {
      Match found{position, end, end, pattern->id};
      if (pattern->lstrip)
        found.begin = std::max(match.end, unicode::skip_whitespace_before(text, position));
      if (pattern->rstrip) found.end = unicode::skip_whitespace(text, end);
      if (found.begin < found.end) return match = found, true;  // else the last match took all
    }
    position = end - 1;  // skips the whole of a match inside a word
  }
  return false;
}

}  // namespace ringlet::models
