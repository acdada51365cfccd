// The tokenizers of transformers' classes, built from a vocabulary and settings alone.
#include <algorithm>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
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

}  // namespace

void add_tokens(std::span<const AddedToken> tokens, TokenizerModel& model,
                const std::string& source) {
  const Vocabulary& vocabulary = model.wordpiece.vocabulary();
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
  std::vector<std::string> pieces;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) pieces.emplace_back(vocabulary.piece(id));
  pieces.insert(pieces.end(), appended.begin(), appended.end());
  model.wordpiece = WordPiece(Vocabulary(pieces, source), model.wordpiece.size(),
                              model.wordpiece.options(), source);
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
  model.normalizer.lowercase = config.do_lower_case.value_or(true);
  model.normalizer.handle_chinese_chars = config.tokenize_chinese_chars.value_or(true);
  model.normalizer.strip_accents =
      config.strip_accents.value_or(std::nullopt).value_or(model.normalizer.lowercase);
  const std::int32_t size = vocabulary.size();
  model.wordpiece =
      WordPiece(std::move(vocabulary), size, {.unk_token = roles.at("unk_token").content}, source);
  add_tokens(added, model, source);
  add_named_tokens(roles, config, model, source);

  const auto id = [&](const char* key) {
    const auto role = roles.find(key);
    return role == roles.end() ? -1 : model.wordpiece.vocabulary().find(role->second.content);
  };
  model.special = {.cls = id("cls_token"),
                   .sep = id("sep_token"),
                   .pad = id("pad_token"),
                   .unk = id("unk_token"),
                   .mask = id("mask_token")};
  model.post_processor = family == TokenizerFamily::kMpnet
                             ? PostProcessor::roberta(model.special.cls, model.special.sep)
                             : PostProcessor::bert(model.special.cls, model.special.sep);
  return model;
}

}  // namespace ringlet::models
