// The Precompiled normalizer of tokenizer.json: replacements in a double-array trie, which
// SentencePiece compiles from NFKC and its own rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringlet::models {

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

}  // namespace ringlet::models
