// Options and embeddings that `ringlet search` and `ringlet mine` share.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/evaluators/encode_together.h"

namespace ringlet::cli {

struct Command;

struct SearchOptions {
  ModelOptions model;
  models::EncodeOptions queries, corpus;  // the corpus has the queries' batch_tokens
  std::filesystem::path cache_folder;     // empty: none
  double timeout = 0;                     // seconds; 0: GroupOptions' own
};

/// --model, prompts, --batch-tokens, --cache-folder and --timeout.
void add_search_options(Command& command, SearchOptions& options);
/// InputError if embeddings cannot be kept in the folder.
void check_search_options(const SearchOptions& options);

/// Embeds texts block by block, by all ranks together. Rank 0 prints progress on stderr.
class BlockEmbedder {
 public:
  /// InputError for a prompt that the folder does not have. `model` and `world` must outlive it.
  BlockEmbedder(const SearchOptions& options, const models::SentenceEncoder& model,
                const comm::Group& world);

  /// (queries, H), on the CPU.
  Tensor queries(const std::vector<std::string>& texts) const;
  /// Passes each block's (n, H) to `use`, on every rank.
  void corpus(const std::vector<std::string>& texts,
              const std::function<void(const Tensor&)>& use) const;

 private:
  void embed(const char* what, const std::vector<std::string>& texts,
             const models::EncodeOptions& how, const std::function<void(const Tensor&)>& use) const;

  const models::SentenceEncoder& model_;
  const comm::Group& world_;
  train::EmbeddingCache cache_;
  models::EncodeOptions queries_, corpus_;
};

}  // namespace ringlet::cli
