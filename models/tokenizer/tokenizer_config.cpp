#include <optional>
#include <string>

#include "ringlet/models/tokenizer/json_node.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

namespace ringlet::models {
namespace {

std::optional<std::string> token_name(const JsonNode& root, const char* key) {
  if (!root.has(key)) return std::nullopt;
  const JsonNode token = root.at(key);
  return token.value().is_object() ? token.at("content").text() : token.text();
}

}  // namespace

TokenizerConfig parse_tokenizer_config(std::string_view text, const std::string& source) {
  const nlohmann::json file = parse_json(text, source);
  const JsonNode root(file, source, "");
  TokenizerConfig config;
  if (root.has("do_lower_case")) config.do_lower_case = root.at("do_lower_case").boolean();
  if (root.has("tokenize_chinese_chars")) {
    config.tokenize_chinese_chars = root.at("tokenize_chinese_chars").boolean();
  }
  if (root.value().contains("strip_accents")) {
    config.strip_accents.emplace();
    if (root.has("strip_accents")) config.strip_accents = root.at("strip_accents").boolean();
  }
  if (root.has("tokenizer_class")) config.tokenizer_class = root.at("tokenizer_class").text();
  if (root.has("model_max_length")) {
    const JsonNode length = root.at("model_max_length");
    // Python writes int(1e30) where there is no limit.
    const bool unlimited = length.value().is_number() && length.value().get<double>() > 1e9;
    config.model_max_length = unlimited ? 0 : length.integer(1, kMostIds);
  }
  config.cls_token = token_name(root, "cls_token");
  config.sep_token = token_name(root, "sep_token");
  config.pad_token = token_name(root, "pad_token");
  config.mask_token = token_name(root, "mask_token");
  return config;
}

}  // namespace ringlet::models
