// tokenizer.json and the small files beside it, in and out of a TokenizerModel.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/models/tokenizer/tokenizer.h"

namespace ringlet::models {

/// Parses the text of a tokenizer.json; `source` begins every message. Anything that is not
/// exactly representable (another model or normalizer, holes in the ids) is InputError. Keys that
/// are not known are appended to `unused_keys`, "FILE: 'key'" each.
TokenizerModel parse_tokenizer_json(std::string_view text, const std::string& source,
                                    std::vector<std::string>* unused_keys = nullptr);
std::string dump_tokenizer_json(const TokenizerModel& model, std::int64_t max_length);

inline constexpr const char* kTokenRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                              "pad_token", "cls_token", "mask_token"};

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
  std::optional<bool> truncate_left;
  /// By key ("cls_token"); without content: null in the file, no such token.
  std::map<std::string, AddedToken> roles;
  /// By key, with which tokens of added_tokens.json are special; empty for {"__type": ...}, whose
  /// text transformers does not compare.
  std::map<std::string, std::string> role_texts;
  /// added_tokens_decoder, by its keys.
  std::optional<std::vector<AddedToken>> added_tokens;
  /// extra_special_tokens, and their name before release 5 of transformers.
  std::vector<AddedToken> extra_tokens, additional_tokens;
  /// Keys without effect, "FILE: 'key'" each.
  std::vector<std::string> unused_keys;

  /// Lays what `other` sets over this, and appends its unused keys.
  void update(const TokenizerConfig& other);
};

/// InputError names a key whose value is of the wrong type or not followed here.
TokenizerConfig parse_tokenizer_config(std::string_view text, const std::string& source);
/// The texts and ids of added_tokens.json, by id.
std::vector<AddedToken> parse_added_tokens(std::string_view text, const std::string& source);
std::string dump_tokenizer_config(const TokenizerModel& model, std::int64_t max_length);
std::string dump_special_tokens_map(const TokenizerModel& model);

/// Adds to the model what is not among its added tokens: a token without a piece gets the next id.
/// InputError where one that is there is matched in another way.
void add_tokens(std::span<const AddedToken> tokens, TokenizerModel& model,
                const std::string& source);
/// The same of the tokens with a role of `roles`, then of the extra ones of `config`; those that
/// are there keep their flags.
void add_named_tokens(const std::map<std::string, AddedToken>& roles, const TokenizerConfig& config,
                      TokenizerModel& model, const std::string& source);

/// The tokenizer that transformers' BertTokenizer or MPNetTokenizer makes of the vocabulary, the
/// added tokens and the settings; those classes use nothing else of a tokenizer.json.
TokenizerModel build_tokenizer_class(TokenizerFamily family, Vocabulary vocabulary,
                                     std::span<const AddedToken> added,
                                     const TokenizerConfig& config, const std::string& source);

/// Reads the files of a folder as transformers' AutoTokenizer does. `overrides` are laid over
/// tokenizer_config.json. Keys without effect are appended to `unused_keys`.
TokenizerModel read_tokenizer_folder(const std::filesystem::path& folder,
                                     const TokenizerConfig& overrides,
                                     std::vector<std::string>& unused_keys);

}  // namespace ringlet::models
