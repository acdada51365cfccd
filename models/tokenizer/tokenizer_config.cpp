#include <algorithm>
#include <string>
#include <utility>

#include "ringlet/core/base/number.h"
#include "ringlet/models/harmless_keys.h"
#include "ringlet/models/tokenizer/added_token_json.h"
#include "ringlet/models/tokenizer/json_node.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

namespace ringlet::models {
namespace {

/// "left" is true, "right" false.
bool is_left(const JsonNode& side) {
  const std::string text = side.text();
  if (text != "left" && text != "right") side.expected("left or right");
  return text == "left";
}

AddedToken read_role(const JsonNode& node, std::vector<std::string>& unused_keys) {
  AddedToken token;
  if (node.value().is_null()) return token;
  if (node.value().is_object()) {
    token = read_added_token(node, true);
    name_unknown_of_token(node, unused_keys);
    token.special = true;
  } else {
    token.content = node.text();
  }
  if (token.content.empty()) node.expected("text that is not empty");
  return token;
}

std::vector<AddedToken> read_tokens(const JsonNode& list, std::vector<std::string>& unused_keys) {
  std::vector<AddedToken> tokens;
  for (std::size_t i = 0; i < list.array().value().size(); ++i) {
    tokens.push_back(read_role(list.at(i), unused_keys));
  }
  return tokens;
}

/// {"103": {"content": "[MASK]", ...}, ...}
std::vector<AddedToken> read_decoder(const JsonNode& decoder,
                                     std::vector<std::string>& unused_keys) {
  std::vector<AddedToken> tokens;
  for (const auto& [key, value] : decoder.object().value().items()) {
    AddedToken token = read_added_token(decoder.at(key.c_str()));
    name_unknown_of_token(decoder.at(key.c_str()), unused_keys);
    const auto id = parse_number<std::int32_t>(key);
    if (!id || *id < 0) decoder.at(key.c_str()).expected("an id as the key");
    token.id = *id;
    tokens.push_back(std::move(token));
  }
  std::ranges::stable_sort(tokens, {}, &AddedToken::id);
  return tokens;
}

void read_length(const JsonNode& length, TokenizerConfig& config) {
  // Python writes int(1e30) for no limit.
  const bool unlimited = length.value().is_number() && length.value().get<double>() > 1e9;
  config.model_max_length = unlimited ? 0 : length.integer(1, kMostIds);
}

constexpr const char* kUsed[] = {"do_lower_case",
                                 "tokenize_chinese_chars",
                                 "strip_accents",
                                 "tokenizer_class",
                                 "max_len",
                                 "model_max_length",
                                 "truncation_side",
                                 "padding_side",
                                 "init_inputs",
                                 "split_special_tokens",
                                 "add_prefix_space",
                                 "added_tokens_decoder",
                                 "extra_special_tokens",
                                 "additional_special_tokens"};

/// Any other text under a token's name becomes a special token in transformers' classes.
void name_unused(const JsonNode& root, TokenizerConfig& config) {
  const auto among = [](const auto& keys, const std::string& key) {
    return std::ranges::find(keys, key) != std::end(keys);
  };
  for (const auto& [key, value] : root.value().items()) {
    if (value.is_null() || among(kTokenRoles, key) || among(kUsed, key) ||
        among(kHarmlessTokenizerKeys, key)) {
      continue;
    }
    if (key.ends_with("_token") && (value.is_string() || value.is_object())) {
      root.at(key.c_str()).expected("no token of another role");
    }
    config.unused_keys.push_back(root.source() + ": " + quote(key));
  }
}

}  // namespace

TokenizerConfig parse_tokenizer_config(std::string_view text, const std::string& source) {
  const nlohmann::json file = parse_json(text, source);
  const JsonNode root(file, source, "");
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
  if (root.flag("split_special_tokens", false)) root.at("split_special_tokens").expected("false");
  for (const char* key : kTokenRoles) {
    if (!present(key)) continue;
    config.roles[key] = read_role(root.at(key), config.unused_keys);
    const bool typed = root.at(key).value().is_object() && root.at(key).has("__type");
    config.role_texts[key] = typed ? std::string() : config.roles[key].content;
  }
  if (root.has("added_tokens_decoder")) {
    config.added_tokens = read_decoder(root.at("added_tokens_decoder"), config.unused_keys);
  }
  if (root.has("extra_special_tokens") && !root.at("extra_special_tokens").value().empty()) {
    config.extra_tokens = read_tokens(root.at("extra_special_tokens"), config.unused_keys);
  }
  if (root.has("additional_special_tokens")) {
    config.additional_tokens =
        read_tokens(root.at("additional_special_tokens"), config.unused_keys);
  }
  name_unused(root, config);
  return config;
}

std::vector<AddedToken> parse_added_tokens(std::string_view text, const std::string& source) {
  const nlohmann::json file = parse_json(text, source);
  const JsonNode root(file, source, "");
  std::vector<AddedToken> tokens;
  for (const auto& [content, id] : root.object().value().items()) {
    AddedToken token;
    token.id = static_cast<std::int32_t>(root.at(content.c_str()).integer(0, kMostIds));
    token.content = content;
    tokens.push_back(std::move(token));
  }
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
  unused_keys.insert(unused_keys.end(), other.unused_keys.begin(), other.unused_keys.end());
  if (!other.extra_tokens.empty()) extra_tokens = other.extra_tokens;
  if (!other.additional_tokens.empty()) additional_tokens = other.additional_tokens;
}

}  // namespace ringlet::models
