// Splits normalized text into words, as Hugging Face's pre-tokenizers do.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>

namespace ringlet::models {

/// Called with each word of a text, which is not empty.
using OnWord = std::function<void(std::string_view word)>;

struct ByteLevel {
  /// Puts a space before a text that begins with another character.
  bool add_prefix_space = true;
  /// Splits off contractions, then letters, numbers, other signs and white space, each with at most
  /// one space before it; false: the text is one word.
  bool use_regex = true;

  void for_words(std::string_view text, bool first, const OnWord& on_word) const;
  /// Appends the bytes for which the characters of `piece` stand, or all of it if one stands for
  /// none.
  static void decode(std::string_view piece, std::string& bytes);
};

/// The pre-tokenizer of BERT and MPNet. White space separates words and is dropped; every
/// punctuation mark is a separate word.
struct BertSplit {
  void for_words(std::string_view text, bool first, const OnWord& on_word) const;
};

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

  /// `first` if the whole text begins with `text`.
  void for_words(std::string_view text, bool first, const OnWord& on_word) const;

 private:
  void for_marked(std::string_view text, bool first, const OnWord& on_word) const;
};

using PreTokenizer = std::variant<BertSplit, Metaspace, ByteLevel>;

}  // namespace ringlet::models
