// The parts of a tokenizer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ringlet/models/tokenizer/added_tokens.h"
#include "ringlet/models/tokenizer/piece_model.h"
#include "ringlet/models/tokenizer/post_processor.h"
#include "ringlet/models/tokenizer/pre_tokenizer.h"

namespace ringlet::models {

/// The contents of a tokenizer.json.
struct TokenizerModel {
  Normalizer normalizer = {};
  PreTokenizer pre_tokenizer = {};
  std::shared_ptr<const PieceModel> pieces = {};
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
