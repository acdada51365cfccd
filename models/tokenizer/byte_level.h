// GPT-2's pre-tokenizer: words with the space before them, and a printable character for each byte.
#pragma once

#include <string>
#include <string_view>

namespace ringlet::models {

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

}  // namespace ringlet::models
