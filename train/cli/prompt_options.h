// The options of `ringlet train` for prompts before the texts that are trained on.
#pragma once

#include <string>
#include <vector>

#include "ringlet/models/sentence_encoder.h"
#include "ringlet/train/data/token_cache.h"

namespace CLI {
class App;
}

namespace ringlet::cli {

struct PromptOptions {
  std::vector<std::string> texts;  // TEXT, or COLUMN=TEXT
  std::vector<std::string> names;  // NAME, or COLUMN=NAME, of the folder's
};

void add_prompt_options(CLI::App& command, PromptOptions& options);
/// By column. InputError for a name that the encoder's folder does not have, or for two prompts of
/// one column.
train::Prompts read_prompts(const PromptOptions& options, const models::SentenceEncoder& encoder);

}  // namespace ringlet::cli
