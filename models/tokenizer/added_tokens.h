// Tokens that are found in the text itself, before it is cut into words: "<mask>", "[SEP]".
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/models/tokenizer/normalizer.h"

namespace ringlet::models {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  /// Only between characters that are not of a word.
  bool single_word = false;
  /// Swallow white space before and after. Kept for the file's sake: BERT's words end at white
  /// space in any case, so that neither changes an id.
  bool lstrip = false;
  bool rstrip = false;
  /// Looked for, normalized, in the normalized text instead of the text as it stands.
  bool normalized = false;
  /// Left out when decoding.
  bool special = true;
};

/// A set of texts to look for; leftmost first, then longest.
class AddedTokenMatcher {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
    std::int32_t id;
  };

  AddedTokenMatcher() = default;
  /// Takes the tokens whose `normalized` flag is as given.
  AddedTokenMatcher(const std::vector<AddedToken>& tokens, bool normalized,
                    const BertNormalizer& normalizer);
  /// The first match at or after `from`; false if there is none.
  bool find(std::string_view text, std::size_t from, Match& match) const;

 private:
  struct Pattern {
    std::string text;
    std::int32_t id;
    bool single_word;
  };
  const Pattern* longest_at(std::string_view text, std::size_t position) const;

  std::vector<Pattern> patterns_;           // by first byte, then longest first
  std::array<std::uint32_t, 257> first_{};  // patterns_[first_[b], first_[b + 1]) begin with byte b
};

}  // namespace ringlet::models
