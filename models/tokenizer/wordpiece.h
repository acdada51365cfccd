// WordPiece: splits a word into the longest pieces of a vocabulary, from left to right.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/models/tokenizer/piece_model.h"

namespace ringlet::models {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  /// Marks pieces that continue a word: "playing" = "play" + "##ing".
  std::string continuing_subword_prefix = "##";
  /// Words of more code points than this are unknown.
  std::int64_t max_input_chars_per_word = 100;
};

class WordPiece final : public PieceModel {
 public:
  /// Words consist of the first `size` pieces. `unk_token` must be one of them, otherwise
  /// InputError that begins with `source`.
  WordPiece(Vocabulary vocabulary, std::int32_t size, WordPieceOptions options,
            std::string_view source = "vocabulary");

  /// Appends the ids of one word, or the unknown id if its pieces do not cover it.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const override;
  std::shared_ptr<const PieceModel> with(Vocabulary vocabulary) const override;

  const WordPieceOptions& options() const { return options_; }

 private:
  std::int32_t longest_prefix(std::string_view head, std::string_view rest,
                              std::size_t& nbytes) const;

  WordPieceOptions options_;
  std::uint64_t prefix_hash_ = Vocabulary::kHashStart;
};

}  // namespace ringlet::models
