// Splits normalized text into words, as Hugging Face's pre-tokenizers do.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ringlet::models {

/// Words that are not parts of the text, contiguous: word i is text[ends[i - 1], ends[i]).
struct Words {
  std::string text;
  std::vector<std::size_t> ends;

  void clear() {
    text.clear();
    ends.clear();
  }
  /// Ends the word that was appended to `text`, unless it is empty.
  void end_word() {
    if (text.size() > (ends.empty() ? 0 : ends.back())) ends.push_back(text.size());
  }
};

struct Words;

struct ByteLevel {
  /// Puts a space before a text that begins with another character.
  bool add_prefix_space = true;
  /// Splits off contractions, then letters, numbers, other signs and white space, each with at most
  /// one space before it; false: the text is one word.
  bool use_regex = true;

  void append(std::string_view text, Words& words) const;
  /// Appends the bytes for which the characters of `piece` stand, or all of it if one stands for
  /// none.
  static void decode(std::string_view piece, std::string& bytes);
};

/// White space separates words and is dropped; every punctuation mark is a separate word. Iterates
/// over the words of `text` without copying: `while (words.next(word)) ...`.
class BertPreTokenizer {
 public:
  explicit BertPreTokenizer(std::string_view text) : text_(text) {}
  /// Sets `word` (never empty) to a view into the text; false at the end.
  bool next(std::string_view& word);

 private:
  std::string_view text_;
  std::size_t position_ = 0;
};

/// The pre-tokenizer of BERT and MPNet, by BertPreTokenizer.
struct BertSplit {};

/// Marks the beginning of words by a character instead of white space, as SentencePiece does.
struct Metaspace {
  enum class Prepend { always, first, never };

  std::string replacement = "\u2581";
  /// Where a word without a mark gets one: everywhere, at the beginning of the text, nowhere.
  Prepend prepend = Prepend::always;
  /// Every mark begins a word.
  bool split = true;
  /// Splits at white space first (WhitespaceSplit).
  bool at_whitespace = false;

  /// Appends the words of `text`; `first` if the text begins with it.
  void append(std::string_view text, bool first, Words& words) const;

 private:
  void append_word(std::string_view word, bool first, Words& words) const;
};

using PreTokenizer = std::variant<BertSplit, Metaspace, ByteLevel>;

}  // namespace ringlet::models
