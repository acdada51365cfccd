// WordPiece: splits a word into the longest pieces of a vocabulary, from left to right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/models/tokenizer/vocabulary.h"

namespace ringlet::models {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  /// Marks pieces that continue a word: "playing" = "play" + "##ing".
  std::string continuing_subword_prefix = "##";
  /// Words of more code points than this are unknown.
  std::int64_t max_input_chars_per_word = 100;
};

class WordPiece {
 public:
  WordPiece() = default;
  /// Words consist of the first `size` pieces. Later ones are added tokens, matched in the text
  /// itself. `unk_token` must be a piece, otherwise InputError that begins with `source`.
  WordPiece(Vocabulary vocabulary, std::int32_t size, WordPieceOptions options,
            std::string_view source = "vocabulary");

  /// Appends the ids of one word, or the unknown id if its pieces do not cover it.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const WordPieceOptions& options() const { return options_; }
  /// The number of pieces of words.
  std::int32_t size() const { return size_; }
  std::int32_t unk_id() const { return unk_id_; }

 private:
  std::int32_t longest_prefix(std::string_view head, std::string_view rest,
                              std::size_t& nbytes) const;

  Vocabulary vocabulary_;
  std::int32_t size_ = 0;
  WordPieceOptions options_;
  std::uint64_t prefix_hash_ = Vocabulary::kHashStart;
  std::int32_t unk_id_ = Vocabulary::kMissing;
};

}  // namespace ringlet::models
