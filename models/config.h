// The shape of an encoder: what config.json says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ringlet::models {

/// All are BERT's encoder but for names, positions, token types and dropout; MPNet has a relative
/// bias, too.
enum class Architecture { bert, mpnet, roberta, xlm_roberta, distilbert };

/// The id of padding where positions are counted. MPNet in transformers takes it there and in its
/// tables whatever pad_token_id is; RoBERTa takes pad_token_id, which must be this one here.
inline constexpr std::int32_t kCountedPadding = 1;

struct EncoderConfig {
  Architecture architecture = Architecture::mpnet;
  std::int64_t vocab_size = 30527;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::int64_t max_position_embeddings = 514;
  std::int64_t type_vocab_size = 0;                  // 0: no token types (MPNet, DistilBERT)
  std::int64_t relative_attention_num_buckets = 32;  // MPNet only
  std::int64_t pad_token_id = 1;
  double layer_norm_eps = 1e-5;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double initializer_range = 0.02;

  /// Reads config.json; an unknown model_type, an activation other than exact GELU, a decoder or
  /// sizes that do not fit each other are InputError. Keys without effect that may change results
  /// elsewhere are appended to `notes`.
  static EncoderConfig from_file(const std::filesystem::path& path,
                                 std::vector<std::string>* notes = nullptr);
  /// The text of config.json, as transformers writes it.
  std::string to_json() const;
  /// "mpnet-base", "bert-base", "minilm-l6" or "tiny"; InputError with these names otherwise.
  static EncoderConfig named(const std::string& name);
  static bool is_name(const std::string& name);
  /// The model on Hugging Face that has published weights of this name's sizes; empty for "tiny".
  static std::string published(const std::string& name);

  /// The id of the padding word: its embedding is initially zero and gets no gradient.
  std::int64_t padding_id() const {
    return architecture == Architecture::mpnet ? kCountedPadding : pad_token_id;
  }
  /// MPNet, RoBERTa and XLM-R count positions from kCountedPadding + 1, without padding tokens;
  /// BERT and DistilBERT count all tokens from 0.
  bool counts_positions() const {
    return architecture != Architecture::bert && architecture != Architecture::distilbert;
  }
  std::int64_t first_position() const { return counts_positions() ? kCountedPadding + 1 : 0; }
  /// The class in transformers: "BertModel".
  const char* model_class() const;
  /// Longest text in tokens.
  std::int64_t max_tokens() const { return max_position_embeddings - first_position(); }
  std::int64_t head_size() const { return hidden_size / num_attention_heads; }
};

}  // namespace ringlet::models
