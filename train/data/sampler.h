// Which rows form the global batch of a step. This is a pure function of (seed, epoch, step):
// resuming within an epoch, or on another number of ranks, needs no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/core/base/names.h"
#include "ringlet/train/data/dataset.h"

namespace ringlet::train {

/// How batches of several data sets alternate. Every batch comes from one of them.
enum class Dealing {
  round_robin,   ///< one batch of each alternately; the epoch ends with the smallest one
  proportional,  ///< every batch of every data set once, in random order
};

inline constexpr EnumNames<Dealing, 2> kDealings{"dealing", {"round_robin", "proportional"}};

/// Which rows of a data set form a batch.
enum class BatchSampler {
  /// The rows in their order.
  batch_sampler,
  /// No text occurs twice in a batch, as MultipleNegativesRankingLoss needs. Each row goes to the
  /// first batch that has room and comes after those with one of its texts. All rows are kept; an
  /// epoch has more steps if a text is in more rows than there are batches.
  no_duplicates,
  /// Labels take turns with two rows each, so that a batch has several labels and at least two rows
  /// of each, as triplet losses need. An epoch ends when fewer than two labels have two rows left.
  group_by_label,
};

inline constexpr EnumNames<BatchSampler, 3> kBatchSamplers{
    "batch sampler", {"batch_sampler", "no_duplicates", "group_by_label"}};

struct SamplerOptions {
  std::uint64_t seed = 0;
  /// Rows in a global batch, over all ranks.
  std::size_t batch_size = 32;
  Dealing dealing = Dealing::proportional;
  /// False keeps the files' order (and, under `proportional`, the order of the data sets).
  bool shuffle = true;
  BatchSampler batch_sampler = BatchSampler::batch_sampler;
};

struct BatchRows {
  std::size_t dataset = 0;
  std::vector<std::size_t> rows;
};

/// The last batch of a data set holds its remaining rows and is kept.
class Sampler {
 public:
  /// The data sets must outlive the sampler. No data set, an empty one and a batch larger than one
  /// of them are InputError; for group_by_label also an odd batch, one below four rows, and data
  /// without two labels of two rows each.
  Sampler(std::vector<const TextDataset*> datasets, SamplerOptions options);
  /// Numbered examples. The steps of an epoch are in order. InputError without examples.
  Sampler(std::size_t examples, SamplerOptions options);
  ~Sampler();

  /// The same in every epoch, unless no_duplicates is the sampler.
  std::size_t steps_per_epoch(std::size_t epoch = 0) const;
  /// Rows of each data set that an epoch uses: all of them, unless round robin ends it
  /// early or group_by_label leaves some over.
  std::vector<std::size_t> rows_per_epoch(std::size_t epoch = 0) const;
  /// Rows of each data set.
  const std::vector<std::size_t>& sizes() const { return sizes_; }
  /// The global batch of a step; step < steps_per_epoch(epoch). Can be called from any thread.
  BatchRows batch(std::size_t epoch, std::size_t step) const;

 private:
  struct Slot {  // batch `index` of a data set
    std::size_t dataset;
    std::size_t index;
  };
  struct Plans;  // unless the rows are in their order: the batches of one epoch

  std::uint64_t key(std::size_t epoch, std::size_t stream) const;
  /// The epoch's order of a data set: rows [begin, end).
  std::vector<std::size_t> rows_in_order(std::size_t epoch, std::size_t dataset, std::size_t begin,
                                         std::size_t end) const;
  bool has_plans() const { return options_.batch_sampler != BatchSampler::batch_sampler; }
  std::vector<std::vector<std::size_t>> plan(std::size_t epoch, std::size_t dataset) const;
  std::vector<std::vector<std::size_t>> without_duplicates(
      const TextDataset& data, const std::vector<std::size_t>& order) const;
  std::shared_ptr<const Plans> plans(std::size_t epoch) const;
  std::vector<std::size_t> batch_counts(std::size_t epoch) const;
  Slot slot(std::size_t epoch, std::size_t step) const;

  std::vector<const TextDataset*> datasets_;  // none: examples
  std::vector<std::size_t> sizes_;
  SamplerOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Plans> plans_[2];  // of the last two epochs used, latest first
};

}  // namespace ringlet::train
