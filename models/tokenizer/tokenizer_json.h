// tokenizer.json and the small files beside it, in and out of a TokenizerModel.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ringlet/models/tokenizer/tokenizer.h"

namespace ringlet::models {

/// Parses the text of a tokenizer.json; `source` begins every message. Anything that is not
/// exactly representable (another model or normalizer, holes in the ids) is InputError.
TokenizerModel parse_tokenizer_json(std::string_view text, const std::string& source);
std::string dump_tokenizer_json(const TokenizerModel& model, std::int64_t max_length);

/// The settings of tokenizer_config.json or special_tokens_map.json that change ids; unset where
/// the file does not have them.
struct TokenizerConfig {
  std::optional<bool> do_lower_case;
  std::optional<bool> tokenize_chinese_chars;
  /// Set and empty: null in the file, which means "as do_lower_case".
  std::optional<std::optional<bool>> strip_accents;
  std::optional<std::string> tokenizer_class;
  /// 0 = no limit.
  std::optional<std::int64_t> model_max_length;
  std::optional<std::string> cls_token, sep_token, pad_token, mask_token;
};

TokenizerConfig parse_tokenizer_config(std::string_view text, const std::string& source);
std::string dump_tokenizer_config(const TokenizerModel& model, std::int64_t max_length);
std::string dump_special_tokens_map(const TokenizerModel& model);

}  // namespace ringlet::models
