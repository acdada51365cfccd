#include "ringlet/train/data/loader.h"

#include <algorithm>
#include <numeric>

#include "ringlet/core/base/setting.h"

namespace ringlet::train {
namespace {

/// Checked; a group of several ranks replaces rank and world_size.
LoaderOptions dealt(LoaderOptions options, const comm::Group& group) {
  if (options.batch_size == 0) fail_setting("batch_size", ": expected at least 1, found 0");
  if (options.accumulation == 0) fail_setting("accumulation", ": expected at least 1, found 0");
  if (group.size() > 1) {
    options.rank = static_cast<std::size_t>(group.rank());
    options.world_size = static_cast<std::size_t>(group.size());
  }
  if (options.dealt_ranks() < options.world_size)
    fail_setting("logical_ranks", ": expected at least the ", options.world_size, " ranks, found ",
                 options.logical_ranks);
  return options;
}

void refuse_options_for_text(const LoaderOptions& options) {
  const auto refuse = [](const char* name, bool is_set) {
    if (is_set) fail_setting(name, ": only loaders of text have it");
  };
  refuse("devices", options.devices != 1);
  refuse("mini_batch_size", options.mini_batch_size > 0);
  refuse("whole_steps", !options.whole_steps.empty());
  refuse("dealing", options.dealing != Dealing::proportional);
  refuse("batch_sampler", options.batch_sampler != BatchSampler::batch_sampler);
  refuse("max_length", options.max_length > 0);
  refuse("padded", options.padded);
  refuse("prompts", !options.prompts.empty());
}

std::vector<const TextDataset*> pointers(const Datasets& datasets) {
  std::vector<const TextDataset*> all;
  for (const auto& dataset : datasets) all.push_back(dataset.get());
  return all;
}

}  // namespace

StepLoader::StepLoader(Datasets datasets, std::optional<std::size_t> examples,
                       LoaderOptions options, const comm::Group& group)
    : datasets_(std::move(datasets)),
      examples_(examples),
      options_(dealt(std::move(options), group)) {
  of_group_ = group.size() > 1 || options_.block().size() > 1;
  if (examples_) refuse_options_for_text(options_);
  RINGLET_CHECK(options_.devices > 0, "[Loader] devices: expected at least 1, found 0");
  RINGLET_CHECK(options_.rank < options_.world_size, "[Loader] rank ", options_.rank, " of ",
                options_.world_size);
  make_sampler();
}

void StepLoader::make_sampler() {
  const SamplerOptions options{.seed = options_.seed,
                               .batch_size = options_.rows_per_step(),
                               .dealing = options_.dealing,
                               .shuffle = options_.shuffle,
                               .batch_sampler = options_.batch_sampler};
  if (examples_)
    sampler_.emplace(*examples_, options);
  else
    sampler_.emplace(pointers(datasets_), options);
}

void StepLoader::deal(const comm::Group& group, std::size_t accumulation, bool split_batches,
                      std::size_t logical_ranks, bool equal_batches) {
  restart();
  const auto ranks = logical_ranks > 0 ? logical_ranks : static_cast<std::size_t>(group.size());
  if (split_batches && options_.batch_size % ranks != 0)
    fail_setting("split_batches", ": expected a batch size divisible by ", ranks, " ranks, found ",
                 options_.batch_size);
  LoaderOptions options = options_;
  if (split_batches) options.batch_size /= ranks;
  options.accumulation = accumulation;
  options.logical_ranks = logical_ranks;
  options.equal_batches = equal_batches;
  options_ = dealt(std::move(options), group);
  of_group_ = group.size() > 1 || options_.block().size() > 1;
  make_sampler();
}

void StepLoader::seek(Position position) {
  restart();
  position_ = position;
}

UpdateArguments StepLoader::arguments() const {
  UpdateArguments all{{kRowsOfAStep, str(options_.rows_per_step())},
                      {kOrder, options_.shuffle ? kShuffled : kAsGiven},
                      {"--seed", str(options_.seed)}};
  if (options_.logical_ranks > 0) all["--logical-ranks"] = str(options_.logical_ranks);
  if (examples_) {
    all["examples"] = str(*examples_);
    return all;
  }
  all.insert({{"--dealing", str(kDealings(options_.dealing))},
              {"--batch-sampler", str(kBatchSamplers(options_.batch_sampler))},
              {"--max-length", options_.max_length > 0 ? str(options_.max_length) : "none"},
              {"--mini-batch-size", str(options_.mini_batch_size)},
              {"--padded", options_.padded ? "true" : "false"}});
  for (const auto& [column, prompt] : options_.prompts)
    all[str("prompt (--prompt, --prompt-name) of ", column.empty() ? "every column" : column)] =
        prompt;
  for (std::size_t i = 0; i < datasets_.size(); ++i) {
    const TextDataset& dataset = *datasets_[i];
    if (digests_.size() == i) digests_.push_back(dataset.digest());
    all[i == 0 ? "--data" : str("--data ", i + 1)] = str(
        dataset.size(), " rows, SHA-256 ", digests_[i],
        dataset.target() == Target::embedding ? ", embeddings of " : "", dataset.embeddings_from());
  }
  return all;
}

std::vector<StepPart> deal_blocks(const BatchRows& step, const LoaderOptions& options) {
  const std::size_t rows = step.rows.size(), size = options.batch_size,
                    round = size * options.dealt_ranks();
  const LeafRange block = options.block();
  std::vector<StepPart> parts;
  for (int rank = block.begin; rank < block.end; ++rank) {
    for (std::size_t at = 0; at < rows; at += round) {
      const std::size_t mine = at + static_cast<std::size_t>(rank) * size;
      const std::size_t n = mine < rows ? std::min(size, rows - mine) : 0;
      const double share = static_cast<double>(n) / static_cast<double>(rows);
      const bool ends = at + round >= rows;
      StepPart& part =
          parts.emplace_back(StepPart{{n, share, ends, ends && rank + 1 == block.end}});
      part.rows.resize(std::max<std::size_t>(n, 1));
      std::iota(part.rows.begin(), part.rows.end(), n > 0 ? mine : at);
    }
  }
  return parts;
}

void pad_block(std::vector<StepPart>& parts, const LoaderOptions& options) {
  const auto mine = static_cast<std::size_t>(options.block().size());
  if (!options.equal_batches || mine * options.world_size >= options.dealt_ranks()) return;
  const auto of_rank = static_cast<std::ptrdiff_t>(parts.size() / mine);
  std::vector<StepPart> padding(parts.begin(), parts.begin() + of_rank);
  for (StepPart& part : padding) {
    part.BatchShare::rows = 0;
    part.ends_step = part.counts = false;
  }
  parts.insert(parts.begin(), padding.begin(), padding.end());
}

}  // namespace ringlet::train
