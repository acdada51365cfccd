// The interface of WordPiece, Unigram and byte pairs: a word becomes pieces of a vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/models/tokenizer/vocabulary.h"

namespace ringlet::models {

class PieceModel {
 public:
  virtual ~PieceModel() = default;

  /// Appends the ids of one word, which is UTF-8 and not empty.
  virtual void append(std::string_view word, std::vector<std::int32_t>& ids) const = 0;
  /// The same model; `vocabulary` has its pieces and then more added tokens.
  virtual std::shared_ptr<const PieceModel> with(Vocabulary vocabulary) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The number of pieces of words. Later ones are added tokens, matched in the text itself.
  std::int32_t size() const { return size_; }
  /// Vocabulary::kMissing if the model has none.
  std::int32_t unk_id() const { return unk_id_; }

 protected:
  PieceModel() = default;
  PieceModel(Vocabulary vocabulary, std::int32_t size, std::int32_t unk_id)
      : vocabulary_(std::move(vocabulary)), size_(size), unk_id_(unk_id) {}
  PieceModel(const PieceModel&) = default;
  PieceModel& operator=(const PieceModel&) = default;

  Vocabulary vocabulary_;
  std::int32_t size_ = 0;
  std::int32_t unk_id_ = Vocabulary::kMissing;
};

}  // namespace ringlet::models
