// Conversion of tokenizer.json and its companion files to and from a TokenizerModel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/models/tokenizer/tokenizer_model.h"

namespace ringlet::models {

/// Reads tokenizer.json. InputError for content that cannot be represented exactly (another model
/// or normalizer, gaps in the ids). Unknown keys are noted.
TokenizerModel read_tokenizer_json(const JsonNode& root);
/// A byte-level BPE tokenizer of the older files vocab.json and merges.txt, without special tokens.
TokenizerModel read_bpe_files(const std::filesystem::path& vocab,
                              const std::filesystem::path& merges);
std::string dump_tokenizer_json(const TokenizerModel& model, std::int64_t max_length);

inline constexpr const char* kTokenRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                              "pad_token", "cls_token", "mask_token"};

/// The roles that SpecialTokens has ids of.
inline constexpr std::pair<const char*, std::int32_t SpecialTokens::*> kSpecialRoles[] = {
    {"cls_token", &SpecialTokens::cls},
    {"sep_token", &SpecialTokens::sep},
    {"pad_token", &SpecialTokens::pad},
    {"unk_token", &SpecialTokens::unk},
    {"mask_token", &SpecialTokens::mask}};

/// The settings of tokenizer_config.json or special_tokens_map.json that change ids; unset if they
/// are not in the file.
struct TokenizerConfig {
  std::optional<bool> do_lower_case;
  std::optional<bool> tokenize_chinese_chars;
  std::optional<bool> add_prefix_space;
  /// Set and empty: null in the file, i.e. equal to do_lower_case.
  std::optional<std::optional<bool>> strip_accents;
  std::optional<std::string> tokenizer_class;
  /// 0 = no limit.
  std::optional<std::int64_t> model_max_length;
  std::optional<bool> truncate_left;
  /// By key ("cls_token"); without content: null in the file, i.e. no such token.
  std::map<std::string, AddedToken> roles;
  /// By key; these tokens of added_tokens.json are special. Empty for {"__type": ...}, as
  /// transformers does not compare its text.
  std::map<std::string, std::string> role_texts;
  /// added_tokens_decoder, by its keys.
  std::optional<std::vector<AddedToken>> added_tokens;
  /// extra_special_tokens, and their name before release 5 of transformers.
  std::vector<AddedToken> extra_tokens, additional_tokens;

  /// Overrides this with the settings of `other`.
  void update(const TokenizerConfig& other);
};

/// InputError names a key with a value of the wrong type or without support here. Keys without
/// effect are noted.
TokenizerConfig read_tokenizer_config(const JsonNode& root);
/// The texts and ids of added_tokens.json, by id.
std::vector<AddedToken> read_added_tokens(const JsonNode& root);
std::string dump_tokenizer_config(const TokenizerModel& model, std::int64_t max_length);
std::string dump_special_tokens_map(const TokenizerModel& model);

/// InputError, which begins with `source`, if the vocabulary has no such special token.
std::int32_t required_id(const Vocabulary& vocabulary, std::string_view token,
                         std::string_view source);
/// Adds missing added tokens to the model: a token without a piece gets the next id. InputError if
/// an existing one has different matching flags.
void add_tokens(std::span<const AddedToken> tokens, TokenizerModel& model,
                const std::string& source);
/// Does the same for the tokens with a role of `roles`, then for the extra ones of `config`;
/// existing ones keep their flags.
void add_named_tokens(const std::map<std::string, AddedToken>& roles, const TokenizerConfig& config,
                      TokenizerModel& model, const std::string& source);

/// The tokenizer that transformers' BertTokenizer or MPNetTokenizer builds from the vocabulary, the
/// added tokens and the settings; those classes use nothing else of a tokenizer.json.
TokenizerModel build_tokenizer_class(TokenizerFamily family, Vocabulary vocabulary,
                                     std::span<const AddedToken> added,
                                     const TokenizerConfig& config, const std::string& source);

/// Replaces the parts of a tokenizer.json that transformers' class makes anew. Those are the
/// pre-tokenizer, the template and the normalizer, of which XLMRobertaTokenizer keeps Precompiled
/// and RobertaTokenizer nothing. Other classes change nothing.
void take_class_settings(const std::string& tokenizer_class, const TokenizerConfig& config,
                         TokenizerModel& model, const std::string& source);

/// Reads the files of a folder as transformers' AutoTokenizer does. `overrides` take precedence
/// over tokenizer_config.json. Keys without effect are appended to `notes`.
TokenizerModel read_tokenizer_folder(const std::filesystem::path& folder,
                                     const TokenizerConfig& overrides, Notes& notes);

Normalizer read_normalizer(const JsonNode& node);
Json dump_normalizer(const Normalizer& normalizer);

PreTokenizer read_pre_tokenizer(const JsonNode& node);
Json dump_pre_tokenizer(const PreTokenizer& splitter);

/// Sets the model's cleanup; the decoder must be the counterpart of the pre-tokenizer.
void read_decoder(const JsonNode& node, TokenizerModel& model);
Json dump_decoder(const TokenizerModel& model);

/// The model's own pieces, in the order of their ids.
std::vector<std::string> read_pieces(const JsonNode& model);
/// The model over the first `size` pieces; later ones are added tokens.
std::shared_ptr<PieceModel> read_piece_model(const JsonNode& model, Vocabulary vocabulary,
                                             std::int32_t size);
Json dump_piece_model(const PieceModel& model);

/// null if it equals `lowercase`, as in published files.
Json dump_strip_accents(const BertNormalizer& normalizer);

/// All fields except the id; other keys are noted; `special` is the default of that field.
AddedToken read_added_token(const JsonNode& node, bool special = false);

}  // namespace ringlet::models
