// Model folders: what Sentence Transformers writes (every layout since version 2), and bare BERT
// and MPNet checkpoints as they are published.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/core/ops/pooling.h"
#include "ringlet/models/sentence_config.h"
#include "ringlet/models/transformer.h"

namespace ringlet::models {

/// Settings of a sentence model besides its transformer. A folder without modules.json is a bare
/// checkpoint: mean pooling, no normalisation, the tokenizer's length.
struct SentenceSettings {
  PoolingMode pooling = PoolingMode::mean;
  bool normalize = false;
  bool include_prompt = true;  // in the pooling
  SentenceConfig config = {};
  std::int64_t max_seq_length = 0;  // 0: not said
  bool do_lower_case = false;
  std::filesystem::path transformer = {};  // the folder of config.json and the weights
  std::string tokenizer_settings = {};     // JSON, laid over tokenizer_config.json
  std::string tokenizer_source = {};       // its file and key
  /// Keys of the files without effect, "FILE: 'key'" each.
  std::vector<std::string> unused_keys = {};
};

/// True if `model` is a folder, or in Hugging Face's cache. InputError if a folder without a model
/// has the name of a built-in model (EncoderConfig::named).
bool names_folder(const std::string& model);

/// InputError unless `model` names a folder or a built-in model.
void check_model_name(const std::string& model);

/// Reads modules.json, the pooling's config, sentence_bert_config.json and
/// config_sentence_transformers.json. InputError for modules other than Transformer, Pooling and
/// Normalize in this order, and for pooling modes other than mean, cls and max. Likewise for a
/// default prompt that the pooling should leave out, and for adapters of the weights. Without
/// modules.json, a chat template and a causal architecture are InputError: Python's tokens or
/// pooling differ.
SentenceSettings read_settings(const std::filesystem::path& folder);

/// Writes the same files, in the layout that every version reads.
void write_settings(const std::filesystem::path& folder, const SentenceSettings& settings,
                    std::int64_t dimension);

/// Points `transformer` at the mapped weights of model.safetensors (or its shards). Names may have
/// a "bert." or "mpnet." prefix; LayerNorm.gamma and beta are weight and bias; any floating dtype
/// is read. `unused_keys` gets the key of a dtype other than f32 in which Python would
/// compute: config.json's, or else the weights'. Returns the unused names. InputError
/// when a parameter is missing or has another shape, or when there are only pickled weights (with
/// the line that converts them).
std::vector<std::string> load_weights(const std::filesystem::path& folder, Transformer& transformer,
                                      std::vector<std::string>* unused_keys = nullptr);

/// Writes model.safetensors with the transformer's parameters, one at a time. A parameter that is
/// merged into another (nn::Lora) is written as a part of it. Under a strategy over several
/// ranks all call it and rank 0 writes.
void save_weights(const std::filesystem::path& folder, const Transformer& transformer);

}  // namespace ringlet::models
