// Model folders: what Sentence Transformers writes (every layout since version 2), bare checkpoints
// as they are published, and models that huggingface_hub has downloaded.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/models/modules/sentence_modules.h"
#include "ringlet/models/sentence_config.h"
#include "ringlet/nn/module.h"

namespace ringlet::models {

struct ModuleEntry {
  std::string type;  // the class, without its package
  std::filesystem::path folder;
};

/// Settings of a sentence model besides its transformer. A folder without modules.json is a bare
/// checkpoint: mean pooling, no normalisation, the tokenizer's length.
struct SentenceSettings {
  PoolingMode pooling = PoolingMode::mean;
  std::vector<ModuleEntry> after = {};  // the modules after the pooling
  bool include_prompt = true;           // in the pooling
  SentenceConfig config = {};
  std::int64_t max_seq_length = 0;  // 0: not said
  bool do_lower_case = false;
  std::filesystem::path transformer = {};  // the folder of config.json and the weights
  std::string tokenizer_settings = {};     // JSON, laid over tokenizer_config.json
  std::string tokenizer_source = {};       // its file and key
  std::vector<std::string> notes = {};     // keys of the files without effect
};

/// True if `model` is a folder, or in Hugging Face's cache. InputError if a folder without a model
/// has the name of a built-in model (EncoderConfig::named).
bool names_folder(const std::string& model);

/// InputError unless `model` names a folder or a built-in model.
void check_model_name(const std::string& model);

/// Reads modules.json, the pooling's config, sentence_bert_config.json and
/// config_sentence_transformers.json. InputError for modules that read_module_list() refuses, and
/// for pooling modes other than mean, cls and max. Likewise for a default prompt that the pooling
/// should leave out, and for adapters of the weights. Without modules.json, a chat template and a
/// causal architecture are InputError: Python's tokens or pooling differ.
SentenceSettings read_settings(const std::filesystem::path& folder);

/// Writes the same files, and those of write_module_list(), in the layout that every version reads.
/// The pooling and the modules are those of `modules`.
void write_settings(const std::filesystem::path& folder, const SentenceSettings& settings,
                    const SentenceModules& modules);

/// The entries of modules.json: Transformer, Pooling, then any number of Dense, Dropout, LayerNorm
/// and Normalize. Keys without effect are appended to `notes`. InputError names an entry
/// of another class.
std::vector<ModuleEntry> read_module_list(const std::filesystem::path& list,
                                          std::vector<std::string>& notes);

/// The modules after the pooling with their weights, for pooled embeddings of `width` columns.
/// InputError for settings that are not supported, and for weights that are missing, pickled, of
/// another shape or without a use.
SentenceModules::After read_modules_after(const std::vector<ModuleEntry>& entries,
                                          std::int64_t width, std::vector<std::string>& notes);

/// Writes modules.json, and the folder and config.json of each module after the pooling.
void write_module_list(const std::filesystem::path& folder, const SentenceModules& modules);

/// Writes the weights of the transformer and of each module after the pooling. Under a strategy
/// over several ranks all call it and rank 0 writes.
void save_all_weights(const std::filesystem::path& folder, const SentenceModules& modules);

/// The folder of "organisation/name" in the local cache of Hugging Face, at the commit of
/// refs/main. A name alone has the organisation sentence-transformers, or none. The
/// caches are SENTENCE_TRANSFORMERS_HOME, then HF_HUB_CACHE, else HF_HOME/hub, else
/// ~/.cache/huggingface/hub. `model` itself if it is a folder, or if no cache has it.
std::filesystem::path cached_folder(const std::filesystem::path& model);

/// Points the parameters of `module` at the mapped weights of model.safetensors (or its shards).
/// Names may have their architecture as a prefix ("bert."); LayerNorm.gamma and beta are weight and
/// bias; any floating dtype is read. `notes` gets the key of a dtype other than f32 in which
/// Python would compute: config.json's, or else the weights'. Returns the unused names. InputError
/// when a parameter is missing or has another shape, or when there are only pickled weights (with
/// the line that converts them).
std::vector<std::string> load_weights(const std::filesystem::path& folder, nn::Module& module,
                                      std::vector<std::string>* notes = nullptr);

/// Writes model.safetensors with the parameters of `module`, one at a time. A parameter that is
/// merged into another (nn::Lora) is written as a part of it. Under a strategy over several
/// ranks all call it and rank 0 writes.
void save_weights(const std::filesystem::path& folder, const nn::Module& module);

}  // namespace ringlet::models
