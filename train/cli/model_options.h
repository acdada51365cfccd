// Options that every command with a model has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringlet/core/device/device.h"
#include "ringlet/models/sentence_encoder.h"
#include "ringlet/train/data/dataset.h"

namespace ringlet::cli {

struct Command;

struct ModelOptions {
  std::string model;
  std::string device = "cpu";
  int threads = 0;  // 0: as many as there are processors
  std::string dtype = "f32";
  std::string matmul_precision = "highest";
  std::int64_t max_length = 0;  // tokens; 0: the model's own limit
  // For a model without modules.json:
  std::optional<models::Pooling> pooling = {};  // none: mean
  bool normalize = false;
};

/// The device of --device: "cpu", "cuda:1" or "cuda". The last is the first GPU, or under a
/// launcher the local rank's GPU among those that this process sees. A launcher may make a single
/// GPU visible to each rank. InputError if the device does not exist.
Device existing_device(const std::string& name);

/// Adds --model, --device, --threads-per-device, --dtype, --matmul-precision, --max-length,
/// --pooling and --normalize. `model_names` may add a positional name to the first.
void add_model_options(Command& command, ModelOptions& options, const std::string& model_help,
                       const std::string& model_names = "--model");
/// Sets the threads and the precision; the device, which must exist.
Device use_device(const ModelOptions& options);
/// Sets dtype and length; a length that the model cannot take is InputError.
void apply(const ModelOptions& options, const models::SentenceEncoder& encoder);
/// --truncate-dim; 0, the default, means the folder's.
void add_truncate_dim(Command& command, std::int64_t& columns);
/// Cuts embeddings to so many numbers; InputError if the model has fewer.
void truncate(const models::SentenceEncoder& model, std::int64_t columns);
/// Reads the folder --model and tells on stderr, if asked to, which of its weights have no use.
models::SentenceEncoder open_model(const ModelOptions& options, bool tell = true);

struct PromptOptions {
  std::vector<std::string> texts;  // TEXT, or COLUMN=TEXT
  std::vector<std::string> names;  // NAME, or COLUMN=NAME, of the folder's
};

void add_prompt_options(Command& command, PromptOptions& options);
/// By column. InputError for a name that the encoder's folder does not have, or for two prompts of
/// one column.
train::Prompts read_prompts(const PromptOptions& options, const models::SentenceEncoder& encoder);

}  // namespace ringlet::cli
