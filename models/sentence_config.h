// config_sentence_transformers.json: the prompt before texts that are embedded, how much of an
// embedding is kept, and what compares embeddings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ringlet::models {

struct SentenceConfig {
  std::map<std::string, std::string> prompts = {};  // text by name
  std::optional<std::string> default_prompt_name = {};
  std::string similarity_fn_name = "cosine";
  std::optional<std::int64_t> truncate_dim = {};  // leading columns of an embedding; unset: all

  /// The text that goes before every text that is embedded: of the name, or of the default one;
  /// empty: nothing. An empty name has no text. InputError lists the names where there is no such
  /// prompt.
  std::string prompt(const std::optional<std::string>& name = {}) const;
};

/// InputError, which begins with `where`, for what compares no embeddings.
void check_similarity_fn_name(const std::string& name, const std::string& where = {});

/// A folder without the file has the defaults. InputError names the file and the key of a
/// wrong type, or of a default prompt that is not among the prompts. Keys without effect are
/// appended to `notes`.
SentenceConfig read_sentence_config(const std::filesystem::path& folder,
                                    std::vector<std::string>& notes);
void write_sentence_config(const std::filesystem::path& folder, const SentenceConfig& config);

}  // namespace ringlet::models
