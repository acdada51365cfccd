// Model folders: what Sentence Transformers writes (every layout since version 2), and bare
// checkpoints as they are published.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/models/modules/module_folder.h"
#include "ringlet/models/sentence_config.h"

namespace ringlet::models {

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

}  // namespace ringlet::models
