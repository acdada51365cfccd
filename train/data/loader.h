// Packed batches of data sets, made ahead on a separate thread.
//
//   for (const models::PackedBatch& batch : Loader("snli.jsonl", tokenizer, {.batch_size = 32}))
//     loss(batch).backward();
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/train/data/bounded_queue.h"
#include "ringlet/train/data/dataset.h"
#include "ringlet/train/data/sampler.h"
#include "ringlet/train/data/step_loader.h"
#include "ringlet/train/data/token_cache.h"

namespace ringlet::train {

struct LoaderOptions {
  /// Rows of one batch on one device.
  std::size_t batch_size = 32;
  /// Batches of one step on one rank. All batches of a step, on all ranks, are parts of one global
  /// batch of rows_per_step() rows, which `global_rows` reports.
  std::size_t accumulation = 1;
  /// Rows of one forward on one device; 0: all. Losses of embeddings then need the memory of so
  /// many rows, for a second forward (models::EmbeddingLoss).
  std::size_t mini_batch_size = 0;
  /// For each data set, whether its loss compares the rows of a global batch (Loss::spans_ranks).
  /// A rank's batches of a step are then one, with forwards of at most batch_size rows.
  std::vector<bool> whole_steps = {};
  std::uint64_t seed = 0;
  Dealing dealing = Dealing::proportional;
  bool shuffle = true;
  BatchSampler batch_sampler = BatchSampler::batch_sampler;
  /// Longest text in tokens, special ones included; 0 leaves the tokenizer's limit.
  std::int64_t max_length = 0;
  /// Fills sentences up to the longest of their column; only to show what padding costs.
  bool padded = false;
  Prompts prompts = {};
  /// A loss is this rank's part of the mean over the global batch: gradients are to be summed over
  /// the ranks. Ranks that train apart, as in local SGD, multiply it by global_rows / rows.
  std::size_t rank = 0;
  std::size_t world_size = 1;
  /// Devices of this one rank: each batch holds batch_size rows for each of them, dealt out as to
  /// so many ranks.
  std::size_t devices = 1;

  /// Rows of a global batch.
  std::size_t rows_per_step() const { return batch_size * accumulation * world_size * devices; }
};

/// Divides all rows of a global batch among `parts`: near-equal in tokens, at most ceil(rows /
/// parts) each, in ascending order. A pure function of its arguments.
std::vector<std::vector<std::size_t>> deal_rows(const std::vector<std::int64_t>& tokens,
                                                std::size_t parts);

/// A thread makes a few batches ahead, also across the end of an epoch.
class Loader final : public StepLoader {
 public:
  using Batch = models::PackedBatch;

  /// A group of several ranks replaces the options' rank and world_size; a group of one leaves
  /// them. Losses refuse the batches of a group unless a strategy sums their gradients.
  Loader(Datasets datasets, const models::Tokenizer& tokenizer, LoaderOptions options = {},
         const comm::Group& group = {});
  /// One file, as read_dataset reads it.
  Loader(const std::filesystem::path& file, const models::Tokenizer& tokenizer,
         LoaderOptions options = {}, const comm::Group& group = {});
  ~Loader() override;
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  void deal(const comm::Group& group, std::size_t accumulation, bool split_batches) override;
  UpdateArguments arguments() const override;
  const Sampler& sampler() const { return *sampler_; }
  const Datasets& datasets() const { return datasets_; }
  const LoaderOptions& options() const { return options_; }
  /// A rank's batches of one step.
  std::size_t batches_per_step(std::size_t dataset) const {
    return is_whole(dataset) ? 1 : options_.accumulation;
  }

  Position position() const override { return position_; }
  void seek(Position position) override;

  /// Iterates from position() to the end of that epoch. After the last batch the position is the
  /// next epoch's start, so that another loop continues from there.
  BatchIterator<Loader> begin() { return BatchIterator(*this); }
  std::default_sentinel_t end() const { return {}; }

  /// The next batch, or null at the end of an epoch (once). It is valid until the next call.
  /// Rethrows the errors of making it.
  const models::PackedBatch* next();
  /// The time that callers have waited in next() so far.
  double seconds_waited() const { return waited_; }

 private:
  struct Item {
    std::optional<models::PackedBatch> batch;  // none: an epoch has ended
    Position after;                            // position once this has been taken
  };
  using Queue = BoundedQueue<Item>;

  bool is_whole(std::size_t dataset) const {
    return dataset < options_.whole_steps.size() && options_.whole_steps[dataset];
  }
  void make_sampler();
  void stop();
  void produce(Position at);
  bool produce_epoch(Position at);
  std::vector<models::PackedBatch> pack(Position at);
  std::int64_t forward_rows(std::size_t micros) const;
  models::PackedBatch build(const BatchRows& global, const std::vector<std::size_t>& mine);

  Datasets datasets_;
  mutable std::vector<std::string> digests_;  // of each data set, at the first use
  LoaderOptions options_;
  bool of_group_;
  std::optional<Sampler> sampler_;
  std::int32_t pad_id_;
  std::vector<TokenCache> caches_;  // used by the thread while it runs
  Position position_;
  std::unique_ptr<Queue> queue_;
  std::thread thread_;
  models::PackedBatch current_;
  double waited_ = 0;
};

}  // namespace ringlet::train
