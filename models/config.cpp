#include "ringlet/models/config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/ops/relative_position.h"
#include "ringlet/models/harmless_keys.h"
#include "ringlet/models/json.h"

namespace ringlet::models {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Far above any model, and few enough to make before a weight is looked at.
constexpr std::int64_t kMaxLayers = 1024;

void check_sizes(const EncoderConfig& c, const std::string& source) {
  const auto positive = [&](const char* key, std::int64_t value) {
    if (value <= 0 || value > (std::int64_t{1} << 24))
      fail_input(source, ": ", key, " must be in 1 to 2^24, not ", value);
  };
  if (c.num_hidden_layers > kMaxLayers)
    fail_input(source, ": num_hidden_layers must be in 1 to ", kMaxLayers, ", not ",
               c.num_hidden_layers);
  positive("vocab_size", c.vocab_size);
  positive("hidden_size", c.hidden_size);
  positive("num_hidden_layers", c.num_hidden_layers);
  positive("num_attention_heads", c.num_attention_heads);
  positive("intermediate_size", c.intermediate_size);
  if (c.pad_token_id < 0 || c.pad_token_id >= c.vocab_size)
    fail_input(source, ": pad_token_id must be in 0 to vocab_size - 1 (", c.vocab_size - 1,
               "), not ", c.pad_token_id);
  positive("max_position_embeddings", c.max_position_embeddings - c.first_position());
  if (c.type_vocab_size != 0) positive("type_vocab_size", c.type_vocab_size);
  if (c.architecture == Architecture::mpnet && c.relative_attention_num_buckets != kRelativeBuckets)
    fail_input(source, ": relative_attention_num_buckets must be ", kRelativeBuckets, ", not ",
               c.relative_attention_num_buckets);
  if (c.hidden_size % c.num_attention_heads != 0)
    fail_input(source, ": hidden_size ", c.hidden_size, " is not a multiple of ",
               c.num_attention_heads, " heads");
  if (!(c.layer_norm_eps > 0 && std::isfinite(c.layer_norm_eps)))
    fail_input(source, ": layer_norm_eps must be finite and above 0, not ", c.layer_norm_eps);
  if (!(c.initializer_range >= 0 && std::isfinite(c.initializer_range)))
    fail_input(source, ": initializer_range must be finite and 0 or more, not ",
               c.initializer_range);
  for (double p : {c.hidden_dropout_prob, c.attention_probs_dropout_prob})
    if (!(p >= 0 && p < 1)) fail_input(source, ": dropout must be in [0, 1), not ", p);
}

EncoderConfig sized(Architecture architecture, std::int64_t layers, std::int64_t hidden,
                    std::int64_t heads) {
  EncoderConfig c;
  c.architecture = architecture;
  c.num_hidden_layers = layers;
  c.hidden_size = hidden;
  c.num_attention_heads = heads;
  c.intermediate_size = 4 * hidden;
  if (architecture == Architecture::bert) {
    c.vocab_size = 30522;
    c.max_position_embeddings = 512;
    c.type_vocab_size = 2;
    c.pad_token_id = 0;
    c.layer_norm_eps = 1e-12;
  }
  return c;
}

}  // namespace

EncoderConfig EncoderConfig::from_file(const std::filesystem::path& path,
                                       std::vector<std::string>* unused_keys) {
  JsonObject j(path);
  const auto type = j.get<std::string>("model_type");
  if (type != "bert" && type != "mpnet")
    fail_input(j.source(), ": model_type ", quote(type),
               " is not supported; expected bert or mpnet");

  EncoderConfig c = sized(type == "bert" ? Architecture::bert : Architecture::mpnet, 12, 768, 12);
  if (type == "mpnet") {  // the defaults of transformers' MPNetConfig
    c.layer_norm_eps = 1e-12;
    c.max_position_embeddings = 512;
  }
  const auto read = [&](const char* key, auto& value) { value = j.get_or(key, value); };
  read("vocab_size", c.vocab_size);
  read("hidden_size", c.hidden_size);
  read("num_hidden_layers", c.num_hidden_layers);
  read("num_attention_heads", c.num_attention_heads);
  read("intermediate_size", c.intermediate_size);
  read("max_position_embeddings", c.max_position_embeddings);
  read("type_vocab_size", c.type_vocab_size);
  read("relative_attention_num_buckets", c.relative_attention_num_buckets);
  read("pad_token_id", c.pad_token_id);
  read("layer_norm_eps", c.layer_norm_eps);
  read("hidden_dropout_prob", c.hidden_dropout_prob);
  read("attention_probs_dropout_prob", c.attention_probs_dropout_prob);
  read("initializer_range", c.initializer_range);
  if (type == "mpnet") c.type_vocab_size = 0;
  check_sizes(c, j.source());

  j.require("hidden_act", "gelu");
  j.require("position_embedding_type", "absolute");
  for (const char* decoders : {"is_decoder", "add_cross_attention", "is_encoder_decoder"})
    j.require(decoders, false);
  for (const char* layers : {"pruned_heads", "per_layer_config", "quantization_config"})
    j.require(layers, json::object());
  j.ignore(kHarmlessConfigKeys);
  if (unused_keys != nullptr) j.name_unused(*unused_keys);
  return c;
}

std::string EncoderConfig::to_json() const {
  const bool mpnet = architecture == Architecture::mpnet;
  ordered_json j;
  j["architectures"] = {mpnet ? "MPNetModel" : "BertModel"};
  j["attention_probs_dropout_prob"] = attention_probs_dropout_prob;
  if (mpnet) j["bos_token_id"] = 0;
  if (mpnet) j["eos_token_id"] = 2;
  j["hidden_act"] = "gelu";
  j["hidden_dropout_prob"] = hidden_dropout_prob;
  j["hidden_size"] = hidden_size;
  j["initializer_range"] = initializer_range;
  j["intermediate_size"] = intermediate_size;
  j["layer_norm_eps"] = layer_norm_eps;
  j["max_position_embeddings"] = max_position_embeddings;
  j["model_type"] = mpnet ? "mpnet" : "bert";
  j["num_attention_heads"] = num_attention_heads;
  j["num_hidden_layers"] = num_hidden_layers;
  j["pad_token_id"] = pad_token_id;
  if (mpnet) j["relative_attention_num_buckets"] = relative_attention_num_buckets;
  j["torch_dtype"] = "float32";
  if (!mpnet) j["type_vocab_size"] = type_vocab_size;
  j["vocab_size"] = vocab_size;
  return j.dump(2) + "\n";
}

bool EncoderConfig::is_name(const std::string& name) {
  return name == "mpnet-base" || name == "bert-base" || name == "minilm-l6" || name == "tiny";
}

std::string EncoderConfig::published(const std::string& name) {
  if (name == "mpnet-base") return "microsoft/mpnet-base";
  if (name == "bert-base") return "google-bert/bert-base-uncased";
  if (name == "minilm-l6") return "nreimers/MiniLM-L6-H384-uncased";
  return "";
}

EncoderConfig EncoderConfig::named(const std::string& name) {
  if (name == "mpnet-base") return sized(Architecture::mpnet, 12, 768, 12);
  if (name == "bert-base") return sized(Architecture::bert, 12, 768, 12);
  if (name == "minilm-l6") return sized(Architecture::bert, 6, 384, 12);
  if (name == "tiny") {
    EncoderConfig c = sized(Architecture::mpnet, 2, 128, 4);
    c.max_position_embeddings = 130;
    return c;
  }
  fail_input("unknown model ", quote(name),
             "; expected mpnet-base, bert-base, minilm-l6, tiny, a folder or a model in "
             "Hugging Face's cache");
}

}  // namespace ringlet::models
