#include "ringlet/models/config.h"

#include <algorithm>
#include <cmath>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/core/ops/relative_position.h"
#include "ringlet/models/harmless_keys.h"

namespace ringlet::models {
namespace {

struct ArchitectureNames {
  Architecture architecture;
  const char* model_type;
  const char* model_class;
};
constexpr ArchitectureNames kArchitectures[] = {  // in the order of the enumeration
    {Architecture::bert, "bert", "BertModel"},
    {Architecture::mpnet, "mpnet", "MPNetModel"},
    {Architecture::roberta, "roberta", "RobertaModel"},
    {Architecture::xlm_roberta, "xlm-roberta", "XLMRobertaModel"},
    {Architecture::distilbert, "distilbert", "DistilBertModel"}};

const ArchitectureNames& architecture_names(Architecture architecture) {
  return kArchitectures[static_cast<std::size_t>(architecture)];
}

Architecture read_architecture(const JsonNode& j) {
  const auto type = j.at("model_type").text();
  for (const ArchitectureNames& each : kArchitectures)
    if (type == each.model_type) return each.architecture;
  fail_input(j.source(), ": model_type ", quote(type),
             " is not supported; expected bert, mpnet, roberta, xlm-roberta or distilbert");
}

// Far above any model, and few enough to make before a weight is looked at.
constexpr std::int64_t kMaxSize = 1 << 24, kMaxLayers = 1024;

void check_sizes(const EncoderConfig& c, const std::string& source) {
  const bool roberta =
      c.architecture == Architecture::roberta || c.architecture == Architecture::xlm_roberta;
  if (roberta && c.pad_token_id != kCountedPadding)
    fail_input(source, ": pad_token_id must be ", kCountedPadding, ", not ", c.pad_token_id);
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
  if (architecture == Architecture::mpnet) return c;
  c.vocab_size = architecture == Architecture::roberta ? 50265 : 30522;
  c.max_position_embeddings = 512;
  c.type_vocab_size = architecture == Architecture::distilbert ? 0 : 2;
  c.pad_token_id = c.counts_positions() ? kCountedPadding : 0;
  c.layer_norm_eps = 1e-12;
  return c;
}

/// The keys of a value: BERT's, and DistilBERT's.
template <class T>
struct KeyNames {
  const char* usual;
  const char* distilbert;
  T EncoderConfig::*value;

  const char* of(bool distil) const { return distil ? distilbert : usual; }
};
constexpr KeyNames<std::int64_t> kSizes[] = {
    {"hidden_size", "dim", &EncoderConfig::hidden_size},
    {"num_hidden_layers", "n_layers", &EncoderConfig::num_hidden_layers},
    {"num_attention_heads", "n_heads", &EncoderConfig::num_attention_heads},
    {"intermediate_size", "hidden_dim", &EncoderConfig::intermediate_size}};
constexpr KeyNames<double> kDropouts[] = {
    {"hidden_dropout_prob", "dropout", &EncoderConfig::hidden_dropout_prob},
    {"attention_probs_dropout_prob", "attention_dropout",
     &EncoderConfig::attention_probs_dropout_prob}};

struct NamedModel {
  const char* name;
  const char* published;
  Architecture architecture;
  std::int64_t layers, hidden, heads;
};
constexpr NamedModel kModels[] = {
    {"mpnet-base", "microsoft/mpnet-base", Architecture::mpnet, 12, 768, 12},
    {"bert-base", "google-bert/bert-base-uncased", Architecture::bert, 12, 768, 12},
    {"minilm-l6", "nreimers/MiniLM-L6-H384-uncased", Architecture::bert, 6, 384, 12},
    {"tiny", "", Architecture::mpnet, 2, 128, 4}};

/// Null if no model has this name.
const NamedModel* find_model(const std::string& name) {
  const auto* model = std::ranges::find(kModels, name, &NamedModel::name);
  return model == std::end(kModels) ? nullptr : model;
}

const char* activation_key(bool distilbert) { return distilbert ? "activation" : "hidden_act"; }

}  // namespace

EncoderConfig EncoderConfig::from_file(const std::filesystem::path& path, Notes* notes) {
  const JsonNode j(path, notes);
  const Architecture architecture = read_architecture(j);
  const bool mpnet = architecture == Architecture::mpnet;
  const bool distilbert = architecture == Architecture::distilbert;

  EncoderConfig c = sized(architecture, distilbert ? 6 : 12, 768, 12);
  if (mpnet) {  // the defaults of transformers' MPNetConfig
    c.layer_norm_eps = 1e-12;
    c.max_position_embeddings = 512;
  }
  const auto read = [&](const char* key, auto& value) { value = j.get_or(key, value); };
  const auto size = [&](const char* key, std::int64_t& value, std::int64_t least = 1,
                        std::int64_t most = kMaxSize) {
    if (j.has(key)) value = j.at(key).integer(least, most);
  };
  size("vocab_size", c.vocab_size);
  for (const auto& key : kSizes)
    size(key.of(distilbert), c.*key.value, 1,
         key.value == &EncoderConfig::num_hidden_layers ? kMaxLayers : kMaxSize);
  for (const auto& key : kDropouts) read(key.of(distilbert), c.*key.value);
  size("max_position_embeddings", c.max_position_embeddings, c.first_position() + 1);
  if (mpnet) j.require("relative_attention_num_buckets", kRelativeBuckets);
  size("pad_token_id", c.pad_token_id, 0, c.vocab_size - 1);
  read("initializer_range", c.initializer_range);
  if (!distilbert) read("layer_norm_eps", c.layer_norm_eps);
  if (!distilbert) size("type_vocab_size", c.type_vocab_size, 0);
  if (mpnet) c.type_vocab_size = 0;
  check_sizes(c, j.source());

  // Both compute with erf.
  if (j.get_or(activation_key(distilbert), "gelu") != "gelu_python")
    j.require(activation_key(distilbert), "gelu");
  if (distilbert) j.require("sinusoidal_pos_embds", false);
  j.require("position_embedding_type", "absolute");
  for (const char* decoders : {"is_decoder", "add_cross_attention", "is_encoder_decoder"})
    j.require(decoders, false);
  for (const char* layers : {"pruned_heads", "per_layer_config", "quantization_config"})
    j.require(layers, Json::object());
  j.ignore(kHarmlessConfigKeys);
  j.name_unused();
  return c;
}

std::string EncoderConfig::to_json() const {
  const bool mpnet = architecture == Architecture::mpnet;
  const bool distilbert = architecture == Architecture::distilbert;
  Json j;
  j["architectures"] = {model_class()};
  for (const auto& key : kDropouts) j[key.of(distilbert)] = this->*key.value;
  if (counts_positions()) j["bos_token_id"] = 0;
  if (counts_positions()) j["eos_token_id"] = 2;
  j[activation_key(distilbert)] = "gelu";
  for (const auto& key : kSizes) j[key.of(distilbert)] = this->*key.value;
  j["initializer_range"] = initializer_range;
  if (!distilbert) j["layer_norm_eps"] = layer_norm_eps;
  j["max_position_embeddings"] = max_position_embeddings;
  j["model_type"] = architecture_names(architecture).model_type;
  j["pad_token_id"] = pad_token_id;
  if (mpnet) j["relative_attention_num_buckets"] = relative_attention_num_buckets;
  j["torch_dtype"] = "float32";
  if (type_vocab_size > 0) j["type_vocab_size"] = type_vocab_size;
  j["vocab_size"] = vocab_size;
  return j.dump(2) + "\n";
}

const char* EncoderConfig::model_class() const {
  return architecture_names(architecture).model_class;
}

bool EncoderConfig::is_name(const std::string& name) { return find_model(name) != nullptr; }

std::string EncoderConfig::published(const std::string& name) {
  const NamedModel* model = find_model(name);
  return model ? model->published : "";
}

EncoderConfig EncoderConfig::named(const std::string& name) {
  if (const NamedModel* model = find_model(name)) {
    EncoderConfig c = sized(model->architecture, model->layers, model->hidden, model->heads);
    if (name == "tiny") c.max_position_embeddings = 130;
    return c;
  }
  const bool of_hub = name.find('/') != 0 && std::ranges::count(name, '/') == 1 && name[0] != '.';
  fail_input("unknown model ", quote(name),
             "; expected mpnet-base, bert-base, minilm-l6, tiny, a folder or a model in "
             "Hugging Face's cache",
             of_hub ? ", where `hf download " + name + "` puts it" : "");
}

}  // namespace ringlet::models
