// The parts of a tokenizer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/models/tokenizer/normalizer.h"
#include "ringlet/models/tokenizer/piece_model.h"
#include "ringlet/models/tokenizer/post_processor.h"
#include "ringlet/models/tokenizer/pre_tokenizer.h"

namespace ringlet::models {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  /// Matches only if no neighbouring character belongs to a word.
  bool single_word = false;
  /// The match includes white space before and after it.
  bool lstrip = false;
  bool rstrip = false;
  /// Normalized, and matched in the normalized text instead of the original.
  bool normalized = false;
  /// Skipped by decoding.
  bool special = true;
};

/// A set of texts to search for; the leftmost match first, then the longest.
class AddedTokenMatcher {
 public:
  /// The next match may lie in the white space that rstrip takes, and its `end` be smaller.
  struct Match {
    std::size_t begin = 0;      // with the white space that lstrip takes
    std::size_t end = 0;        // with the white space that rstrip takes
    std::size_t found_end = 0;  // of the token itself, where the search continues
    std::int32_t id = -1;
  };

  AddedTokenMatcher() = default;
  /// Takes the tokens with this value of `normalized`.
  AddedTokenMatcher(const std::vector<AddedToken>& tokens, bool normalized,
                    const Normalizer& normalizer);
  /// Replaces `match`, at first Match(), by the next one; false if there is none.
  bool next(std::string_view text, Match& match) const;

 private:
  struct Pattern {
    std::string text;
    std::int32_t id;
    bool single_word;
    bool lstrip;
    bool rstrip;
  };
  const Pattern* longest_at(std::string_view text, std::size_t position) const;

  std::vector<Pattern> patterns_;           // by first byte, then longest first
  std::array<std::uint32_t, 257> first_{};  // patterns_[first_[b], first_[b + 1]) begin with byte b
};

/// The contents of a tokenizer.json.
struct TokenizerModel {
  Normalizer normalizer = {};
  PreTokenizer pre_tokenizer = {};
  std::shared_ptr<PieceModel> pieces = {};
  std::vector<AddedToken> added_tokens;
  PostProcessor post_processor;
  SpecialTokens special;
  bool decoder_cleanup = true;
  /// Python's tokenizer returns token types, which DistilBERT's and XLM-R's classes do not.
  bool token_types = true;
  std::int64_t max_length = 0;
  /// A text that is too long keeps its end instead of its beginning.
  bool truncate_left = false;
};

}  // namespace ringlet::models
