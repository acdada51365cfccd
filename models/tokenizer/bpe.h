// Byte-pair encoding: neighbouring pieces of a word merge, the pair of the lowest rank first.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ringlet/models/tokenizer/piece_model.h"

namespace ringlet::models {

class Bpe final : public PieceModel {
 public:
  /// Two pieces and the one that they become; all are ids below size().
  struct Merge {
    std::int32_t left;
    std::int32_t right;
    std::int32_t merged;
  };

  /// `merges` by rank; of equal pairs the last counts. A word's characters are the first `size`
  /// pieces; one that is not becomes `unk_id`, or nothing if that is Vocabulary::kMissing.
  Bpe(Vocabulary vocabulary, std::int32_t size, std::vector<Merge> merges, std::int32_t unk_id);

  /// O(n log n) in the characters of the word. Pairs of one rank merge from the left.
  void append(std::string_view word, std::vector<std::int32_t>& ids) const override;
  std::shared_ptr<const PieceModel> with(Vocabulary vocabulary) const override;

  const std::vector<Merge>& merges() const { return merges_; }

 private:
  /// The rank of the pair, or -1.
  std::int32_t rank(std::int32_t left, std::int32_t right) const;
  std::vector<std::int32_t> characters(std::string_view word) const;

  std::vector<Merge> merges_;
  std::unordered_map<std::uint64_t, std::int32_t> ranks_;
};

}  // namespace ringlet::models
