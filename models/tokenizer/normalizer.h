// Text clean-up before it is split into words, equal to Hugging Face's normalizers for every
// character: BertNormalizer, or a sequence of Precompiled, Strip and Replace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ringlet::models {

/// The Precompiled normalizer of tokenizer.json: replacements in a double-array trie, which
/// SentencePiece compiles from NFKC and its own rules.
class Precompiled {
 public:
  /// `charsmap` is base64: the trie's bytes (u32), its units (u32 each) and the replacements, each
  /// ended by a NUL. InputError that begins with `source` if it is something else.
  Precompiled(std::string charsmap, std::string_view source);

  /// Appends `text` (UTF-8) with its replacements to `out`. A grapheme cluster of less than 6 bytes
  /// is looked up as a whole, then its characters one at a time. A look-up finds the shortest key
  /// that begins the text, so a cluster may be replaced by the text for its first character.
  void normalize(std::string_view text, std::string& out) const;

  /// As in the file.
  const std::string& charsmap() const { return charsmap_; }

 private:
  std::optional<std::string_view> find(std::string_view text) const;

  std::string charsmap_;
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

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
  void flush(std::string& run, std::string& out) const;
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
