#include "ringlet/models/folder.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/models/harmless_keys.h"

namespace ringlet::models {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSentenceConfig = "sentence_bert_config.json";

struct PoolingFlag {
  const char* key;
  const char* mode;
};
constexpr PoolingFlag kPoolingFlags[] = {
    {"pooling_mode_cls_token", "cls"},
    {"pooling_mode_mean_tokens", "mean"},
    {"pooling_mode_max_tokens", "max"},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
    {"pooling_mode_weightedmean_tokens", "weightedmean"},
    {"pooling_mode_lasttoken", "lasttoken"}};

PoolingMode parse_pooling(std::string_view mode, const JsonNode& j) {
  const auto found = std::ranges::find(kPoolings.all, mode);
  if (found == kPoolings.all.end())
    fail_input(j.name(), ": pooling mode ", quote(mode), " is not supported; expected ",
               kPoolings.list());
  return static_cast<PoolingMode>(found - kPoolings.all.begin());
}

// Newer files name the mode; older ones have a flag for each.
PoolingMode read_pooling(const JsonNode& j) {
  std::vector<std::string_view> on;
  for (const PoolingFlag& flag : kPoolingFlags)
    if (j.get_or(flag.key, false)) on.push_back(flag.mode);
  if (j.has("pooling_mode")) {
    const JsonNode mode = j.at("pooling_mode");
    const bool list = mode.value().is_array() && mode.size() == 1;
    return parse_pooling((list ? mode.at(0) : mode).text(), j);
  }
  if (on.size() != 1)
    fail_input(j.source(), ": expected exactly one pooling mode, found ", on.size());
  return parse_pooling(on[0], j);
}

/// The settings of the transformer in Sentence Transformers, under the names of all its releases;
/// the first file that is there and not empty. Empty: none.
fs::path transformer_settings(const fs::path& folder) {
  for (const std::string kind :
       {"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"}) {
    fs::path path = folder / ("sentence_" + kind + "_config.json");
    if (path_exists(path) && JsonNode(path).object().size() > 0) return path;
  }
  return {};
}

/// Arguments of a class in Python. None is followed but a dtype that is f32 or "auto".
void refuse_arguments(const JsonNode& j, std::initializer_list<const char*> keys,
                      std::span<const char* const> harmless) {
  for (const char* key : keys) {
    if (!j.has(key)) continue;
    const JsonNode arguments = j.at(key);
    arguments.ignore(harmless);
    arguments.ignore(kHarmlessLoadingKeys);
    for (const char* dtype : {"dtype", "torch_dtype"})
      if (arguments.has(dtype) && arguments.at(dtype).value() != "auto")
        arguments.require(dtype, "float32");
    arguments.refuse_unused();
  }
}

/// Arguments of AutoTokenizer, which count before the keys of tokenizer_config.json; its length
/// counts before max_seq_length, too.
void read_tokenizer_arguments(const JsonNode& j, SentenceSettings& settings) {
  Json arguments = j.object().value();
  for (const char* key : kHarmlessLoadingKeys) arguments.erase(key);
  j.require("tokenizer_class", nullptr);
  j.require("tokenizer_type", nullptr);
  if (j.has("model_max_length")) settings.max_seq_length = 0;
  settings.tokenizer_settings = arguments.dump();
  settings.tokenizer_source = j.name();
}

std::int64_t read_length(const JsonNode& j, const char* key) {
  const std::int64_t length = j.at(key).integer();
  if (length < 1) fail_input(j.name(), ": ", key, ": expected 1 or more, got ", length);
  return length;
}

/// Arguments of each call of the tokenizer; those for all inputs count before those for text.
void read_call_arguments(const JsonNode& j, SentenceSettings& settings) {
  for (const char* inputs : {"text", "common"}) {
    if (!j.has(inputs)) continue;
    const JsonNode call = j.at(inputs);
    if (call.has("max_length")) settings.max_seq_length = read_length(call, "max_length");
    const Json truncation = call.has("truncation") ? call.at("truncation").value() : Json(true);
    if (truncation != "only_first" && truncation != true)
      call.require("truncation", "longest_first");
    call.ignore(kHarmlessCallKeys);
    call.refuse_unused();
  }
  j.ignore(kHarmlessInputs);
  j.name_unused();
}

void read_transformer(const fs::path& folder, SentenceSettings& settings) {
  settings.transformer = folder;
  const fs::path path = transformer_settings(folder);
  if (path.empty()) return;
  const JsonNode j(path, &settings.notes);
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
    if (j.has(key)) read_tokenizer_arguments(j.at(key), settings);
  }
  if (j.has("processing_kwargs")) read_call_arguments(j.at("processing_kwargs"), settings);
  // Arguments of encode_query and encode_document, and deprecated ones.
  for (const char* key :
       {"query_length", "document_length", "query_expansion", "tokenizer_name_or_path"})
    j.require(key, nullptr);
  j.ignore(kHarmlessTransformerKeys);
  j.refuse_unused();
}

void read_pooling_module(const fs::path& path, SentenceSettings& settings) {
  const JsonNode j(path);
  settings.pooling = read_pooling(j);
  settings.include_prompt = j.get_or("include_prompt", true);
  if (!settings.include_prompt && !settings.config.prompt().empty())
    fail_input(path.string(), ": include_prompt: false is not supported with a default prompt (",
               quote(*settings.config.default_prompt_name), ")");
  j.ignore(kHarmlessPoolingKeys);
  j.refuse_unused();
}

/// Refuses a bare checkpoint for which Python uses a chat template or pools the last token.
void check_bare(const fs::path& folder) {
  for (const char* name : {"chat_template.jinja", "additional_chat_templates"})
    if (const fs::path path = folder / name; path_exists(path))
      fail_input(path.string(), ": chat templates are not supported without modules.json");
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
    if (const fs::path path = folder / name; path_exists(path))
      JsonNode(path).require("chat_template", nullptr);
  const JsonNode config(folder / "config.json");
  const Json heads = config.has("architectures") ? config.at("architectures").value() : Json();
  if (!heads.is_array() || heads.empty() || !heads[0].is_string()) return;
  const std::string& head = heads[0].text();
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
  const JsonNode index(path, &settings.notes);
  index.has("weight_map");  // core/io/safetensors.h reads it
  index.ignore(kHarmlessIndexKeys);
  index.name_unused();
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

  settings.config = read_sentence_config(folder, settings.notes);
  const std::vector<ModuleEntry> modules = read_module_list(list, settings.notes);
  read_transformer(modules[kTransformerModule].folder, settings);
  read_pooling_module(modules[kPoolingModule].folder / "config.json", settings);
  settings.after.assign(modules.begin() + kFirstAfterPooling, modules.end());
  return settings;
}

bool holds_model(const fs::path& folder) {
  return path_exists(folder / "config.json") || path_exists(folder / "modules.json");
}

/// InputError for the folder of a run, or for one of its checkpoints, without a model in it. The
/// model is in RUN/model once the run has ended, or in a checkpoint of Sentence Transformers.
void check_no_run(const fs::path& folder) {
  if (holds_model(folder)) return;
  constexpr const char* kCheckpoint = "checkpoint-";
  const fs::path own = folder.has_filename() ? folder : folder.parent_path();
  const bool is_checkpoint = own.filename().string().starts_with(kCheckpoint);
  const fs::path run = is_checkpoint ? own.parent_path() : own, model = run / "model";
  if (holds_model(model))
    fail_input(folder.string(), ": expected a model's folder, which is ", model.string());
  bool has_checkpoints = false;
  for (const fs::path& path : list_folder(run.empty() ? "." : run)) {
    if (!path.filename().string().starts_with(kCheckpoint)) continue;
    if (holds_model(path))
      fail_input(folder.string(), ": expected a model's folder, such as ", path.string());
    has_checkpoints = true;
  }
  if (has_checkpoints)
    fail_input(folder.string(), ": a checkpoint holds no model; the run writes ", model.string(),
               " at its end, to which `ringlet train --resume` brings it");
}

fs::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path cache() {
  if (const fs::path hub = variable("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const fs::path home = variable("HF_HOME"); !home.empty()) return home / "hub";
  const fs::path user = variable("XDG_CACHE_HOME");
  return (user.empty() ? variable("HOME") / ".cache" : user) / "huggingface/hub";
}

}  // namespace

void check_model_name(const std::string& model) {
  if (names_folder(model)) return;
  check_no_run(model);
  EncoderConfig::named(model);
}

bool names_folder(const std::string& model) {
  const fs::path folder = cached_folder(model);
  if (!folder_exists(folder)) return false;
  if (EncoderConfig::is_name(model) && !holds_model(folder))
    fail_input(model,
               ": is a built-in model, but a folder of that name is in the way, and there "
               "is no model in it; rename the folder, or run elsewhere");
  return true;
}

SentenceSettings read_settings(const fs::path& folder) {
  const bool exists = folder_exists(folder);
  check_no_run(folder);
  if (!exists) fail_input(folder.string(), ": no such folder");
  SentenceSettings settings = read_modules(folder);
  check_weight_files(settings);
  return settings;
}

void write_settings(const fs::path& folder, const SentenceSettings& settings,
                    const SentenceModules& modules) {
  write_module_list(folder, modules);

  Json pooling;
  pooling["word_embedding_dimension"] = modules.transformer()->config().hidden_size;
  for (const PoolingFlag& flag : kPoolingFlags)
    pooling[flag.key] = flag.mode == kPoolings(modules.pooling());
  pooling["include_prompt"] = settings.include_prompt;
  make_folders(folder / "1_Pooling");
  write_file(folder / "1_Pooling" / "config.json", pooling.dump(2));

  const Json transformer{{"max_seq_length", settings.max_seq_length}, {"do_lower_case", false}};
  write_file(folder / kSentenceConfig, transformer.dump(2));
  write_sentence_config(folder, settings.config);
}

fs::path cached_folder(const fs::path& model) {
  const std::string name = model.string();
  const std::size_t slash = name.find('/');
  const bool is_name = !name.empty() && slash != 0 && !name.starts_with('.') &&
                       (slash == name.npos || name.find('/', slash + 1) == name.npos);
  if (!is_name || folder_exists(model)) return model;
  const std::vector<std::string> names =
      slash == name.npos ? std::vector{"sentence-transformers--" + name, name}
                         : std::vector{name.substr(0, slash) + "--" + name.substr(slash + 1)};
  for (const fs::path& place : {variable("SENTENCE_TRANSFORMERS_HOME"), cache()})
    for (const std::string& each : names) {
      const fs::path folder = place / ("models--" + each);
      if (place.empty() || !path_exists(folder / "refs/main")) continue;
      std::string commit = read_file(folder / "refs/main");
      commit.erase(commit.find_last_not_of(" \n") + 1);
      return folder / "snapshots" / commit;
    }
  return model;
}

}  // namespace ringlet::models
