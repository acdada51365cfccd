// Unigram: the most probable split of a word into pieces, as in SentencePiece and XLM-R.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ringlet/models/tokenizer/piece_model.h"

namespace ringlet::models {

class Unigram final : public PieceModel {
 public:
  /// The first scores.size() pieces have these log-probabilities; `unk_id` is among them.
  Unigram(Vocabulary vocabulary, std::vector<double> scores, std::int32_t unk_id);

  /// Maximizes the sum of scores. A character without its own piece may be unknown, at the lowest
  /// score less 10; neighbouring unknown characters give one id. If sums are equal, the split with
  /// the longer last piece counts.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const override;
  std::shared_ptr<const PieceModel> with(Vocabulary vocabulary) const override;

  const std::vector<double>& scores() const { return scores_; }

 private:
  std::vector<double> scores_;
  double unk_score_;
};

}  // namespace ringlet::models
