// config_sentence_transformers.json: what goes before texts that are embedded, and what compares
// embeddings.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace ringlet::models {

struct SentenceConfig {
  std::map<std::string, std::string> prompts = {};  // text by name
  std::optional<std::string> default_prompt_name = {};
  std::string similarity_fn_name = "cosine";

  /// What goes before every text that is embedded; empty: nothing.
  std::string default_prompt() const;
};

/// What a folder without the file has is the default. InputError names the file and the key of a
/// wrong type, or of a default prompt that is not among the prompts.
SentenceConfig read_sentence_config(const std::filesystem::path& folder);
void write_sentence_config(const std::filesystem::path& folder, const SentenceConfig& config);

}  // namespace ringlet::models
