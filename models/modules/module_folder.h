// modules.json, and the folders of the modules after the pooling.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/models/modules/sentence_modules.h"

namespace ringlet::models {

struct ModuleEntry {
  std::string type;  // the class, without its package
  std::filesystem::path folder;
};

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

}  // namespace ringlet::models
