// The tokenizers of transformers' classes, built from a vocabulary and settings alone.
#include <algorithm>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/models/tokenizer/piece_model.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

namespace ringlet::models {
namespace {

std::map<std::string, std::string> default_roles(TokenizerFamily family) {
  if (family == TokenizerFamily::kMpnet) {  // the unknown token is not "<unk>"
    return {{"bos_token", "<s>"},    {"eos_token", "</s>"},  {"sep_token", "</s>"},
            {"cls_token", "<s>"},    {"unk_token", "[UNK]"}, {"pad_token", "<pad>"},
            {"mask_token", "<mask>"}};
  }
  return {{"cls_token", "[CLS]"},
          {"sep_token", "[SEP]"},
          {"unk_token", "[UNK]"},
          {"pad_token", "[PAD]"},
          {"mask_token", "[MASK]"}};
}

/// The roles of the class's defaults, overridden by the settings. A null removes a role.
std::map<std::string, AddedToken> find_roles(TokenizerFamily family, const TokenizerConfig& config,
                                             const std::string& source) {
  std::map<std::string, AddedToken> roles;
  for (const auto& [key, content] : default_roles(family)) roles[key].content = content;
  if (family == TokenizerFamily::kMpnet) roles["mask_token"].lstrip = true;
  for (const auto& [key, token] : config.roles) roles[key] = token;
  std::erase_if(roles, [](const auto& role) { return role.second.content.empty(); });
  for (const char* key : {"cls_token", "sep_token", "unk_token"})
    if (!roles.contains(key)) fail_input(source, ": ", key, ": expected text, got null");
  return roles;
}

AddedToken* find_token(std::vector<AddedToken>& tokens, std::string_view content) {
  const auto found = std::ranges::find_if(
      tokens, [&](const AddedToken& token) { return token.content == content; });
  return found == tokens.end() ? nullptr : &*found;
}

/// Duplicates of a token must have equal flags: which one counts differs from flag to flag.
void check_flags(const AddedToken& a, const AddedToken& b, const std::string& source) {
  if (a.single_word != b.single_word || a.normalized != b.normalized) {
    fail_input(source, ": expected the same single_word and normalized wherever ", quote(a.content),
               " is an added token");
  }
}

/// XLMRobertaTokenizer keeps only the replacements of a file's normalizer.
NormalizerSequence only_precompiled(const Normalizer& normalizer) {
  NormalizerSequence sequence;
  if (const auto* whole = std::get_if<NormalizerSequence>(&normalizer)) {
    for (const auto& step : whole->steps)
      if (std::holds_alternative<Precompiled>(step)) sequence.steps.push_back(step);
  }
  return sequence;
}

}  // namespace

std::int32_t required_id(const Vocabulary& vocabulary, std::string_view token,
                         std::string_view source) {
  const std::int32_t id = vocabulary.find(token);
  if (id == Vocabulary::kMissing)
    fail_input(source, ": expected the special token ", quote(token),
               " in the vocabulary, it is not there");
  return id;
}

void add_tokens(std::span<const AddedToken> tokens, TokenizerModel& model,
                const std::string& source) {
  const Vocabulary& vocabulary = model.pieces->vocabulary();
  const auto first_new = static_cast<std::size_t>(vocabulary.size());
  std::vector<std::string> appended;
  for (AddedToken token : tokens) {
    if (AddedToken* known = find_token(model.added_tokens, token.content)) {
      check_flags(*known, token, source);
      known->special |= token.special;
      continue;
    }
    token.id = vocabulary.find(token.content);
    if (token.id == Vocabulary::kMissing) {
      token.id = static_cast<std::int32_t>(first_new + appended.size());
      appended.push_back(token.content);
    }
    model.added_tokens.push_back(std::move(token));
  }
  if (appended.empty()) return;
  if (!vocabulary.can_grow())
    fail_input(source, ": has equal lines, or blank ones at its end; a line is expected for token ",
               quote(appended.front()));
  std::vector<std::string> pieces = vocabulary.pieces(vocabulary.size());
  pieces.insert(pieces.end(), appended.begin(), appended.end());
  model.pieces->grow(Vocabulary(pieces, source));
}

void add_named_tokens(const std::map<std::string, AddedToken>& roles, const TokenizerConfig& config,
                      TokenizerModel& model, const std::string& source) {
  std::vector<AddedToken> tokens;
  for (const char* key : kTokenRoles) {
    if (const auto role = roles.find(key); role != roles.end()) tokens.push_back(role->second);
  }
  const auto& more = config.extra_tokens.empty() ? config.additional_tokens : config.extra_tokens;
  tokens.insert(tokens.end(), more.begin(), more.end());
  std::erase_if(tokens, [&](const AddedToken& token) {
    return token.content.empty() || find_token(model.added_tokens, token.content) != nullptr;
  });
  add_tokens(tokens, model, source);
}

TokenizerModel build_tokenizer_class(TokenizerFamily family, Vocabulary vocabulary,
                                     std::span<const AddedToken> added,
                                     const TokenizerConfig& config, const std::string& source) {
  const auto roles = find_roles(family, config, source);
  TokenizerModel model;
  BertNormalizer normalizer;
  normalizer.lowercase = config.do_lower_case.value_or(true);
  normalizer.handle_chinese_chars = config.tokenize_chinese_chars.value_or(true);
  normalizer.strip_accents =
      config.strip_accents.value_or(std::nullopt).value_or(normalizer.lowercase);
  model.normalizer = normalizer;
  const std::int32_t size = vocabulary.size();
  model.pieces = std::make_shared<WordPiece>(
      std::move(vocabulary), size, WordPieceOptions{.unk_token = roles.at("unk_token").content},
      source);
  add_tokens(added, model, source);
  add_named_tokens(roles, config, model, source);

  for (const auto& [key, id] : kSpecialRoles)
    if (const auto role = roles.find(key); role != roles.end())
      model.special.*id = model.pieces->vocabulary().find(role->second.content);
  model.post_processor = family == TokenizerFamily::kMpnet
                             ? PostProcessor::roberta(model.special.cls, model.special.sep)
                             : PostProcessor::bert(model.special.cls, model.special.sep);
  return model;
}

void take_class_settings(const std::string& tokenizer_class, const TokenizerConfig& config,
                         TokenizerModel& model, const std::string& source) {
  // The id of the token with a role, by the settings or else by its usual name.
  const auto id = [&](const char* key, const char* usual) {
    const auto role = config.roles.find(key);
    const bool named = role != config.roles.end() && !role->second.content.empty();
    return required_id(model.pieces->vocabulary(), named ? role->second.content : usual, source);
  };
  if (tokenizer_class == "XLMRobertaTokenizer") {
    if (dynamic_cast<const Unigram*>(model.pieces.get()) == nullptr || model.pieces->unk_id() != 3)
      fail_input(source, ": model: expected Unigram with unk_id 3, as ", tokenizer_class, " has");
    model.normalizer = only_precompiled(model.normalizer);
    const bool prepend = config.add_prefix_space.value_or(true);
    model.pre_tokenizer =
        Metaspace{.prepend = prepend ? Metaspace::Prepend::always : Metaspace::Prepend::never,
                  .at_whitespace = true};
    model.post_processor = PostProcessor::roberta(id("bos_token", "<s>"), id("eos_token", "</s>"));
  } else if (tokenizer_class == "RobertaTokenizer") {
    if (dynamic_cast<const Bpe*>(model.pieces.get()) == nullptr)
      fail_input(source, ": model: expected BPE, as ", tokenizer_class, " has");
    model.normalizer = NormalizerSequence();
    model.pre_tokenizer = ByteLevel{.add_prefix_space = config.add_prefix_space.value_or(false)};
    model.post_processor = PostProcessor::roberta(id("cls_token", "<s>"), id("sep_token", "</s>"));
  }
}

}  // namespace ringlet::models
