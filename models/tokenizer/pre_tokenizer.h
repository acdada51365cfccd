// Splits normalized text into words as BertPreTokenizer does. White space separates words and is
// dropped; every punctuation mark is a separate word.
#pragma once

#include <string_view>

namespace ringlet::models {

/// Iterates over the words of `text` without copying: `while (words.next(word)) ...`.
class BertPreTokenizer {
 public:
  explicit BertPreTokenizer(std::string_view text) : text_(text) {}
  /// Sets `word` (never empty) to a view into the text; false at the end.
  bool next(std::string_view& word);

 private:
  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace ringlet::models
