// Text clean-up before it is split into words, equal to Hugging Face's normalizers for every
// character: BertNormalizer, or a sequence of Precompiled, Strip and Replace.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ringlet/models/tokenizer/precompiled.h"

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

/// Removes white space at the beginning, the end or both.
struct Strip {
  bool left = true;
  bool right = true;

  void normalize(std::string_view text, std::string& out) const;
};

struct Replace {
  std::string pattern;  // not empty
  std::string content;
  /// `pattern` is a character; runs of at least this many are replaced as a whole. 0: every
  /// occurrence of the text `pattern`.
  std::size_t least_run = 0;

  void normalize(std::string_view text, std::string& out) const;
};

/// Applied in this order; none leaves the text unchanged.
struct NormalizerSequence {
  std::vector<std::variant<Precompiled, Strip, Replace>> steps = {};

  /// Appends the normalized `text` to `out`; stray bytes become U+FFFD.
  void normalize(std::string_view text, std::string& out) const;
};

using Normalizer = std::variant<BertNormalizer, NormalizerSequence>;

inline void normalize(const Normalizer& normalizer, std::string_view text, std::string& out) {
  std::visit([&](const auto& steps) { steps.normalize(text, out); }, normalizer);
}

}  // namespace ringlet::models
