// BERT's text clean-up, equal to Hugging Face's BertNormalizer for every character.
#pragma once

#include <string>
#include <string_view>

namespace ringlet::models {

struct BertNormalizer {
  /// Drops control characters, NUL and U+FFFD; replaces white space by U+0020.
  bool clean_text = true;
  /// Puts a space on both sides of every CJK ideograph.
  bool handle_chinese_chars = true;
  /// Canonical decomposition, then drops non-spacing marks.
  bool strip_accents = true;
  bool lowercase = true;

  /// Appends the normalized `text` (UTF-8; stray bytes become U+FFFD) to `out`.
  void normalize(std::string_view text, std::string& out) const;

 private:
  void normalize_ascii(char c, std::string& out) const;
  std::size_t normalize_run(std::string_view text, std::size_t position, std::string& out) const;
  void flush(std::u32string& run, std::string& out) const;
};

}  // namespace ringlet::models
