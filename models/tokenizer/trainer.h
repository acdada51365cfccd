// Learns a WordPiece vocabulary from text, as Hugging Face's WordPieceTrainer does. It starts from
// single characters; then the most frequent pair of neighbouring pieces becomes a piece,
// repeatedly.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ringlet/models/tokenizer/tokenizer.h"

namespace ringlet::models {

struct TrainerOptions {
  TokenizerFamily family = TokenizerFamily::kBert;
  BertNormalizer normalizer = {};
  /// The number of pieces, including special tokens. Fewer if the text has no more pairs; more if
  /// the alphabet alone is larger.
  std::int64_t vocab_size = 30522;
  /// A less frequent pair does not become a piece.
  std::int64_t min_frequency = 2;
  /// Characters kept, the most frequent first.
  std::int64_t limit_alphabet = 1000;
  /// 0 = no limit.
  std::int64_t max_length = 512;
};

/// The pieces in the order of their ids: special tokens, characters, continuing characters, merges.
/// The special tokens are [PAD] [UNK] [CLS] [SEP] [MASK], or `<s> <pad> </s> <unk> [UNK]` and, at
/// the end, `<mask>`. The result is the same on every machine: pairs of equal frequency merge in
/// the order of their pieces' ids. InputError if vocab_size does not hold the special tokens.
std::vector<std::string> learn_vocabulary(std::span<const std::string> texts,
                                          const TrainerOptions& options = {});

/// A tokenizer over the learned vocabulary.
Tokenizer train_tokenizer(std::span<const std::string> texts, const TrainerOptions& options = {});

}  // namespace ringlet::models
