#include <algorithm>
#include <string>
#include <utility>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/models/harmless_keys.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

namespace ringlet::models {
namespace {

/// "left" is true, "right" false.
bool is_left(const JsonNode& side) {
  const std::string text = side.text();
  if (text != "left" && text != "right") side.expected("left or right");
  return text == "left";
}

AddedToken read_role(const JsonNode& node) {
  AddedToken token;
  if (node.value().is_null()) return token;
  if (node.value().is_object()) {
    token = read_added_token(node, true);
    token.special = true;
  } else {
    token.content = node.text();
  }
  if (token.content.empty()) node.expected("text that is not empty");
  return token;
}

std::vector<AddedToken> read_tokens(const JsonNode& list) {
  std::vector<AddedToken> tokens;
  for (const JsonNode& token : list.elements()) tokens.push_back(read_role(token));
  return tokens;
}

/// {"103": {"content": "[MASK]", ...}, ...}
std::vector<AddedToken> read_decoder(const JsonNode& decoder) {
  std::vector<AddedToken> tokens;
  for (const auto& [key, node] : decoder.members()) {
    AddedToken token = read_added_token(node);
    const auto id = parse_number<std::int32_t>(key);
    if (!id || *id < 0) node.expected("an id as the key");
    token.id = *id;
    tokens.push_back(std::move(token));
  }
  std::ranges::stable_sort(tokens, {}, &AddedToken::id);
  return tokens;
}

void read_length(const JsonNode& length, TokenizerConfig& config) {
  // Python writes int(1e30) for no limit.
  const bool unlimited = length.value().is_number() && length.number() > 1e9;
  config.model_max_length = unlimited ? 0 : length.integer(1, kMostIds);
}

/// Any other text under a token's name becomes a special token in transformers' classes.
void refuse_roles(const JsonNode& root) {
  for (const auto& [key, value] : root.value().items()) {
    const bool token = key.ends_with("_token") && (value.is_string() || value.is_object());
    if (token && std::ranges::count(kTokenRoles, key) == 0)
      root.at(key).expected("no token of another role");
  }
}

}  // namespace

TokenizerConfig read_tokenizer_config(const JsonNode& root) {
  TokenizerConfig config;
  const auto present = [&](const char* key) { return root.object().value().contains(key); };
  // Python's classes accept no null for these arguments, so at() and not has().
  if (present("do_lower_case")) config.do_lower_case = root.at("do_lower_case").boolean();
  if (present("tokenize_chinese_chars")) {
    config.tokenize_chinese_chars = root.at("tokenize_chinese_chars").boolean();
  }
  if (root.has("add_prefix_space")) config.add_prefix_space = root.at("add_prefix_space").boolean();
  if (present("strip_accents")) {
    config.strip_accents.emplace();
    if (root.has("strip_accents")) config.strip_accents = root.at("strip_accents").boolean();
  }
  if (root.has("tokenizer_class")) config.tokenizer_class = root.at("tokenizer_class").text();
  for (const char* key : {"max_len", "model_max_length"}) {
    if (root.has(key)) read_length(root.at(key), config);
  }
  if (root.has("truncation_side")) config.truncate_left = is_left(root.at("truncation_side"));
  if (root.has("padding_side") && is_left(root.at("padding_side"))) {
    root.at("padding_side").expected("right: BERT counts positions from the padding on");
  }
  if (root.has("init_inputs") && !root.at("init_inputs").value().empty()) {
    root.at("init_inputs").expected("no arguments");
  }
  if (root.get_or("split_special_tokens", false)) root.at("split_special_tokens").expected("false");
  for (const char* key : kTokenRoles) {
    if (!present(key)) continue;
    config.roles[key] = read_role(root.at(key));
    const bool typed = root.at(key).value().is_object() && root.at(key).has("__type");
    config.role_texts[key] = typed ? std::string() : config.roles[key].content;
  }
  if (root.has("added_tokens_decoder")) {
    config.added_tokens = read_decoder(root.at("added_tokens_decoder"));
  }
  if (root.has("extra_special_tokens") && !root.at("extra_special_tokens").value().empty()) {
    config.extra_tokens = read_tokens(root.at("extra_special_tokens"));
  }
  if (root.has("additional_special_tokens")) {
    config.additional_tokens = read_tokens(root.at("additional_special_tokens"));
  }
  root.ignore(kHarmlessTokenizerKeys);
  refuse_roles(root);
  root.name_unused();
  return config;
}

std::vector<AddedToken> read_added_tokens(const JsonNode& root) {
  std::vector<AddedToken> tokens;
  for (const auto& [content, id] : root.members())
    tokens.push_back(
        {.id = static_cast<std::int32_t>(id.integer(0, kMostIds)), .content = content});
  std::ranges::stable_sort(tokens, {}, &AddedToken::id);
  return tokens;
}

void TokenizerConfig::update(const TokenizerConfig& other) {
  const auto lay = [](auto& under, const auto& over) {
    if (over) under = over;
  };
  lay(do_lower_case, other.do_lower_case);
  lay(tokenize_chinese_chars, other.tokenize_chinese_chars);
  lay(add_prefix_space, other.add_prefix_space);
  lay(strip_accents, other.strip_accents);
  lay(model_max_length, other.model_max_length);
  lay(truncate_left, other.truncate_left);
  lay(added_tokens, other.added_tokens);
  for (const auto& [key, token] : other.roles) roles[key] = token;
  for (const auto& [key, text] : other.role_texts) role_texts[key] = text;
  if (!other.extra_tokens.empty()) extra_tokens = other.extra_tokens;
  if (!other.additional_tokens.empty()) additional_tokens = other.additional_tokens;
}

}  // namespace ringlet::models
