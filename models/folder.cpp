#include "ringlet/models/folder.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/safetensors.h"
#include "ringlet/models/harmless_keys.h"
#include "ringlet/models/hub_cache.h"
#include "ringlet/models/json.h"
#include "ringlet/models/tokenizer/json_node.h"
#include "ringlet/nn/lora.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::models {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kSentenceConfig = "sentence_bert_config.json";

PoolingMode parse_pooling(const std::string& mode, const std::string& source) {
  if (mode == "mean") return PoolingMode::mean;
  if (mode == "cls") return PoolingMode::cls;
  if (mode == "max") return PoolingMode::max;
  fail_input(source, ": pooling mode ", quote(mode),
             " is not supported; expected mean, cls or max");
}

// Newer files name the mode; older ones have a flag for each.
PoolingMode read_pooling(JsonObject& j) {
  static const std::map<std::string, std::string> modes{
      {"pooling_mode_mean_tokens", "mean"},
      {"pooling_mode_cls_token", "cls"},
      {"pooling_mode_max_tokens", "max"},
      {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
      {"pooling_mode_weightedmean_tokens", "weightedmean"},
      {"pooling_mode_lasttoken", "lasttoken"}};
  std::vector<std::string> on;
  for (const auto& [flag, mode] : modes)
    if (j.get_or(flag, false)) on.push_back(mode);
  if (j.has("pooling_mode")) {
    const auto mode = j.get<json>("pooling_mode");
    const bool list = mode.is_array() && mode.size() == 1 && mode[0].is_string();
    return parse_pooling(list ? mode[0].get<std::string>() : j.get<std::string>("pooling_mode"),
                         j.source());
  }
  if (on.size() != 1)
    fail_input(j.source(), ": expected exactly one pooling mode, found ", on.size());
  return parse_pooling(on[0], j.source());
}

/// The settings of the transformer in Sentence Transformers, under the names of all its releases;
/// the first file that is there and not empty. Empty: none.
fs::path transformer_settings(const fs::path& folder) {
  for (const std::string kind :
       {"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"}) {
    fs::path path = folder / ("sentence_" + kind + "_config.json");
    if (path_exists(path) && !JsonObject(path).empty()) return path;
  }
  return {};
}

/// Arguments of a class in Python. None is followed but a dtype that is f32 or "auto".
void refuse_arguments(JsonObject& j, std::initializer_list<const char*> keys,
                      std::span<const char* const> harmless) {
  for (const char* key : keys) {
    if (!j.has(key)) continue;
    JsonObject arguments(j.get<json>(key), j.source() + ": " + key);
    arguments.ignore(harmless);
    arguments.ignore(kHarmlessLoadingKeys);
    for (const char* dtype : {"dtype", "torch_dtype"})
      if (arguments.get_or<json>(dtype, "auto") != json("auto"))
        arguments.require(dtype, "float32");
    arguments.refuse_unused();
  }
}

/// Arguments of AutoTokenizer, which count before the keys of tokenizer_config.json; its length
/// counts before max_seq_length, too.
void read_tokenizer_arguments(json arguments, const std::string& source,
                              SentenceSettings& settings) {
  JsonObject j(arguments, source);
  for (const char* key : kHarmlessLoadingKeys) arguments.erase(key);
  j.require("tokenizer_class", nullptr);
  j.require("tokenizer_type", nullptr);
  if (j.has("model_max_length")) settings.max_seq_length = 0;
  settings.tokenizer_settings = arguments.dump();
  settings.tokenizer_source = source;
}

std::int64_t read_length(JsonObject& j, const char* key) {
  const auto length = j.get<std::int64_t>(key);
  if (length < 1) fail_input(j.source(), ": ", key, ": expected 1 or more, got ", length);
  return length;
}

/// Arguments of each call of the tokenizer; those for all inputs count before those for text.
void read_call_arguments(const json& arguments, const std::string& source,
                         SentenceSettings& settings) {
  JsonObject j(arguments, source);
  for (const char* inputs : {"text", "common"}) {
    if (!j.has(inputs)) continue;
    JsonObject call(j.get<json>(inputs), source + "." + inputs);
    if (call.has("max_length")) settings.max_seq_length = read_length(call, "max_length");
    if (call.get_or<json>("truncation", true) != json("only_first") &&
        call.get_or<json>("truncation", true) != json(true))
      call.require("truncation", "longest_first");
    call.ignore(kHarmlessCallKeys);
    call.refuse_unused();
  }
  j.ignore(kHarmlessInputs);
  j.name_unused(settings.unused_keys);
}

void read_transformer(const fs::path& folder, SentenceSettings& settings) {
  settings.transformer = folder;
  const fs::path path = transformer_settings(folder);
  if (path.empty()) return;
  JsonObject j(path);
  settings.do_lower_case = j.get_or("do_lower_case", false);
  if (j.has("max_seq_length")) settings.max_seq_length = read_length(j, "max_seq_length");
  j.require("transformer_task", "feature-extraction");
  j.require("module_output_name", "token_embeddings");
  j.require("modality_config",
            {{"text", {{"method", "forward"}, {"method_output_name", "last_hidden_state"}}}});
  // The older name of each pair counts where both are there.
  refuse_arguments(j, {"model_kwargs", "model_args"}, kHarmlessModelKeys);
  refuse_arguments(j, {"config_kwargs", "config_args"}, {});
  for (const char* key : {"processor_kwargs", "tokenizer_args"}) {
    if (!j.has(key)) continue;
    read_tokenizer_arguments(j.get<json>(key), j.source() + ": " + key, settings);
  }
  if (j.has("processing_kwargs"))
    read_call_arguments(j.get<json>("processing_kwargs"), j.source() + ": processing_kwargs",
                        settings);
  // Arguments of encode_query and encode_document, and deprecated ones.
  for (const char* key :
       {"query_length", "document_length", "query_expansion", "tokenizer_name_or_path"})
    j.require(key, nullptr);
  j.ignore(kHarmlessTransformerKeys);
  j.refuse_unused();
}

void read_pooling_module(const fs::path& path, SentenceSettings& settings) {
  JsonObject j(path);
  settings.pooling = read_pooling(j);
  settings.include_prompt = j.get_or("include_prompt", true);
  if (!settings.include_prompt && !settings.config.prompt().empty())
    fail_input(path.string(), ": include_prompt: false is not supported with a default prompt (",
               quote(*settings.config.default_prompt_name), ")");
  j.ignore(kHarmlessPoolingKeys);
  j.refuse_unused();
}

void read_normalize(const fs::path& path, SentenceSettings& settings) {
  settings.normalize = true;
  if (!path_exists(path)) return;
  JsonObject j(path);
  for (const char* key : {"module_input_name", "module_output_name"})
    j.require(key, "sentence_embedding");
  j.name_unused(settings.unused_keys);
}

/// The folder of a module; InputError if its type is not `expected`.
fs::path module_folder(const fs::path& folder, JsonObject& module, const std::string& expected) {
  const auto type = module.get<std::string>("type");
  const std::string name = type.substr(type.rfind('.') + 1);
  if (!type.starts_with("sentence_transformers.") || name != expected)
    fail_input(module.source(), ": ", quote(name == expected ? type : name),
               " is not supported; expected ", expected,
               ", of Sentence Transformers' Transformer, Pooling and Normalize in this order");
  const auto path = module.get<std::string>("path");
  for (const fs::path& part : fs::path(path))
    if (part == ".." || part == "/")
      fail_input(module.source(), ": path ", quote(path), ": expected a folder in this folder");
  return path.empty() ? folder : folder / path;
}

void replace_suffix(std::string& name, const std::string& from, const std::string& to) {
  if (name.ends_with(from)) name.replace(name.size() - from.size(), from.size(), to);
}

// The name that the model uses for a tensor of a checkpoint.
std::string model_name(std::string name) {
  for (const char* prefix : {"bert.", "mpnet."})
    if (name.starts_with(prefix)) name.erase(0, std::string(prefix).size());
  replace_suffix(name, "LayerNorm.gamma", "LayerNorm.weight");
  replace_suffix(name, "LayerNorm.beta", "LayerNorm.bias");
  return name;
}

SafeTensors open_weights(const fs::path& folder) {
  const bool safe = path_exists(folder / "model.safetensors") ||
                    path_exists(folder / "model.safetensors.index.json");
  if (!safe && path_exists(folder / "pytorch_model.bin"))
    fail_input((folder / "pytorch_model.bin").string(),
               ": pickled weights are not read; convert them with python -c \"from transformers "
               "import AutoModel; AutoModel.from_pretrained('",
               folder.string(), "').save_pretrained('", folder.string(), "')\"");
  return SafeTensors::open(folder);
}

// In storage of its own, so that it moves and is written by itself. f32 stays in the mapping; other
// dtypes do until they are first looked at, so that a rank that keeps a shard converts no more.
Tensor weight(const SafeTensors& file, const std::string& name) {
  if (file.dtype(name) == DType::f32) {
    const Tensor mapped = file.load(name);
    auto* bytes = const_cast<std::byte*>(mapped.bytes());
    auto alone = std::make_shared<Storage>(bytes, mapped.nbytes(), mapped.device(),
                                           [storage = mapped.storage()] {});
    return Tensor(std::move(alone), 0, mapped.shape(), mapped.dtype());
  }
  const Shape shape = file.shape(name);
  const std::size_t nbytes = static_cast<std::size_t>(shape.numel()) * sizeof(float);
  const auto convert = [file, name, shape, nbytes](std::byte* bytes) {
    Tensor value(std::make_shared<Storage>(bytes, nbytes, Device{}, [] {}), 0, shape, DType::f32);
    file.load_into(name, value);
  };
  return Tensor(std::make_shared<Storage>(nbytes, Device{}, convert), 0, shape, DType::f32);
}

/// Names the key that makes Python compute in another dtype than f32. The weights' dtype counts
/// where config.json has none.
void name_dtype(const fs::path& folder, const SafeTensors& weights, bool all_f32,
                std::vector<std::string>& unused_keys) {
  JsonObject config(folder / "config.json");
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!config.has(key)) continue;
    if (config.get<json>(key) != json("float32"))
      unused_keys.push_back(config.source() + ": " + quote(key));
    return;
  }
  if (!all_f32) unused_keys.push_back(weights.path().string() + ": 'dtype'");
}

/// Refuses a bare checkpoint for which Python uses a chat template or pools the last token.
void check_bare(const fs::path& folder) {
  for (const char* name : {"chat_template.jinja", "additional_chat_templates"})
    if (const fs::path path = folder / name; path_exists(path))
      fail_input(path.string(), ": chat templates are not supported without modules.json");
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
    if (const fs::path path = folder / name; path_exists(path))
      JsonObject(parse_json(read_file(path), path.string()), path.string())
          .require("chat_template", nullptr);
  JsonObject config(folder / "config.json");
  const auto heads = config.get_or("architectures", json::array());
  if (!heads.is_array() || heads.empty() || !heads[0].is_string()) return;
  const auto head = heads[0].get<std::string>();
  if (head.ends_with("ForCausalLM") && config.get_or("is_causal", true))
    fail_input(config.source(), ": architectures: ", quote(head),
               " is not supported without modules.json: Python pools its last token");
}

/// Files that change what transformers makes of the weights.
void check_weight_files(SentenceSettings& settings) {
  if (const fs::path adapter = settings.transformer / "adapter_config.json"; path_exists(adapter))
    fail_input(adapter.string(), ": adapters are not supported; merge them into the weights");
  const fs::path path = settings.transformer / "model.safetensors.index.json";
  if (!path_exists(path)) return;
  JsonObject index(path);
  index.has("weight_map");  // core/io/safetensors.h reads it
  index.ignore(kHarmlessIndexKeys);
  index.name_unused(settings.unused_keys);
}

/// All of read_settings() but check_weight_files().
SentenceSettings read_modules(const fs::path& folder) {
  SentenceSettings settings;
  settings.transformer = folder;
  const fs::path list = folder / "modules.json";
  if (!path_exists(list)) {
    check_bare(folder);
    return settings;
  }

  const json modules = json::parse(read_file(list), nullptr, false);
  if (!modules.is_array() || modules.empty())
    fail_input(list.string(), ": expected a list of modules");
  settings.config = read_sentence_config(folder, settings.unused_keys);
  constexpr const char* kTypes[] = {"Transformer", "Pooling", "Normalize"};
  std::set<std::string> names;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    JsonObject module(modules[i], str(list.string(), ": module ", i));
    if (i >= std::size(kTypes)) fail_input(module.source(), ": expected no module after Normalize");
    const fs::path path = module_folder(folder, module, kTypes[i]);
    if (const auto name = module.get<std::string>("name"); !names.insert(name).second)
      fail_input(module.source(), ": a module before it has the name ", quote(name), ", too");
    if (i == 0) read_transformer(path, settings);
    if (i == 1) read_pooling_module(path / "config.json", settings);
    if (i == 2) read_normalize(path / "config.json", settings);
    module.ignore(kHarmlessModuleKeys);
    module.name_unused(settings.unused_keys);
  }
  if (modules.size() == 1)
    fail_input(list.string(), ": expected Pooling as module 1, the list ends before it");
  return settings;
}

}  // namespace

void check_model_name(const std::string& model) {
  if (!names_folder(model)) EncoderConfig::named(model);
}

bool names_folder(const std::string& model) {
  const fs::path folder = cached_folder(model);
  if (!folder_exists(folder)) return false;
  const bool holds_model =
      path_exists(folder / "config.json") || path_exists(folder / "modules.json");
  if (EncoderConfig::is_name(model) && !holds_model)
    fail_input(model,
               ": is a built-in model, but a folder of that name is in the way, and there "
               "is no model in it; rename the folder, or run elsewhere");
  return true;
}

SentenceSettings read_settings(const fs::path& folder) {
  if (!folder_exists(folder)) fail_input(folder.string(), ": no such folder");
  SentenceSettings settings = read_modules(folder);
  check_weight_files(settings);
  return settings;
}

void write_settings(const fs::path& folder, const SentenceSettings& settings,
                    std::int64_t dimension) {
  const auto module = [](int idx, const std::string& path, const std::string& type) {
    ordered_json j;
    j["idx"] = idx;
    j["name"] = std::to_string(idx);
    j["path"] = path;
    j["type"] = "sentence_transformers.models." + type;
    return j;
  };
  ordered_json modules = ordered_json::array();
  modules.push_back(module(0, "", "Transformer"));
  modules.push_back(module(1, "1_Pooling", "Pooling"));
  if (settings.normalize) modules.push_back(module(2, "2_Normalize", "Normalize"));
  write_file(folder / "modules.json", modules.dump(2));

  ordered_json pooling;
  pooling["word_embedding_dimension"] = dimension;
  pooling["pooling_mode_cls_token"] = settings.pooling == PoolingMode::cls;
  pooling["pooling_mode_mean_tokens"] = settings.pooling == PoolingMode::mean;
  pooling["pooling_mode_max_tokens"] = settings.pooling == PoolingMode::max;
  pooling["pooling_mode_mean_sqrt_len_tokens"] = false;
  pooling["pooling_mode_weightedmean_tokens"] = false;
  pooling["pooling_mode_lasttoken"] = false;
  pooling["include_prompt"] = settings.include_prompt;
  make_folders(folder / "1_Pooling");
  write_file(folder / "1_Pooling" / "config.json", pooling.dump(2));
  if (settings.normalize) make_folders(folder / "2_Normalize");

  ordered_json transformer;
  transformer["max_seq_length"] = settings.max_seq_length;
  transformer["do_lower_case"] = false;
  write_file(folder / kSentenceConfig, transformer.dump(2));
  write_sentence_config(folder, settings.config);
}

std::vector<std::string> load_weights(const fs::path& folder, Transformer& transformer,
                                      std::vector<std::string>* unused_keys) {
  const SafeTensors file = open_weights(folder);
  const std::string source = file.path().string();
  std::map<std::string, std::string> in_file;  // model name to the file's
  for (const std::string& name : file.names()) {
    const auto [known, is_new] = in_file.emplace(model_name(name), name);
    if (!is_new)
      fail_input(source, ": tensors ", quote(known->second), " and ", quote(name),
                 " are the same parameter");
  }
  bool all_f32 = true;
  for (const nn::NamedParameter& named : transformer.named_parameters()) {
    const auto found = in_file.find(named.name);
    if (found == in_file.end()) fail_input(source, ": tensor ", quote(named.name), " is missing");
    const std::string& name = found->second;
    if (file.shape(name) != named.parameter.shape())
      fail_input(source, ": tensor ", quote(name), " has shape ", file.shape(name),
                 ", but config.json says ", named.parameter.shape());
    if (!is_floating(file.dtype(name)))
      fail_input(source, ": tensor ", quote(name), " is ", file.dtype(name),
                 ", expected f32, bf16 or f16");
    all_f32 &= file.dtype(name) == DType::f32;
    named.parameter.set_tensor(weight(file, name));
    in_file.erase(found);
  }
  if (unused_keys != nullptr) name_dtype(folder, file, all_f32, *unused_keys);
  std::vector<std::string> unused;
  for (const auto& [name, original] : in_file)
    if (!name.ends_with("position_ids")) unused.push_back(original);
  return unused;
}

void save_weights(const fs::path& folder, const Transformer& transformer) {
  std::vector<const nn::Lora*> adapters;
  std::set<const void*> merged;  // into others
  const_cast<Transformer&>(transformer).visit([&](const std::string&, nn::Module& module) {
    const auto* const adapter = dynamic_cast<const nn::Lora*>(&module);
    if (!adapter) return;
    adapters.push_back(adapter);
    const auto [a, b] = adapter->factors();
    merged.insert({a.state().get(), b.state().get()});
  });
  std::vector<nn::NamedParameter> parameters = transformer.named_parameters();
  std::erase_if(parameters, [&](const nn::NamedParameter& named) {
    return merged.contains(named.parameter.state().get());
  });
  nn::WholeParameters whole(transformer);
  std::optional<SafeTensorsWriter> writer;
  if (whole.writes()) {
    std::vector<SafeTensorsWriter::Entry> entries;
    for (const auto& [name, parameter] : parameters)
      entries.push_back({name, parameter.dtype(), parameter.shape()});
    writer.emplace(folder / "model.safetensors", entries);
  }
  // One dtype: the writer keeps the order.
  for (const auto& [name, parameter] : parameters) {
    Tensor value = whole(parameter);
    for (const nn::Lora* adapter : adapters) {
      if (!(adapter->weight() == parameter)) continue;
      const Tensor weight = value.clone();
      const auto [a, b] = adapter->factors();
      const Tensor whole_a = whole(a).clone();
      value = adapter->merged(weight, whole_a, whole(b));
    }
    if (writer) writer->write(name, value);
  }
  if (writer) writer->commit();
}

}  // namespace ringlet::models
