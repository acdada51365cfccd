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

inline constexpr Names<Dealing, 2> kDealings{"dealing", {"round_robin", "proportional"}};

struct SamplerOptions {
  std::uint64_t seed = 0;
  /// Rows in a global batch, over all ranks.
  std::size_t batch_size = 32;
  Dealing dealing = Dealing::proportional;
  /// False keeps the files' order (and, under `proportional`, the order of the data sets).
  bool shuffle = true;
  /// No text occurs twice in a batch, as MultipleNegativesRankingLoss needs. Each row goes to the
  /// first batch that has room and comes after those with one of its texts. All rows are kept; an
  /// epoch has more steps if a text is in more rows than there are batches.
  bool no_duplicates = false;
};

struct BatchRows {
  std::size_t dataset = 0;
  std::vector<std::size_t> rows;
};

/// The last batch of a data set holds its remaining rows and is kept.
class Sampler {
 public:
  /// The data sets must outlive the sampler. No data set, an empty one and a batch larger than one
  /// of them are InputError.
  Sampler(std::vector<const TextDataset*> datasets, SamplerOptions options);
  ~Sampler();

  /// The same in every epoch, unless no_duplicates is set.
  std::size_t steps_per_epoch(std::size_t epoch = 0) const;
  /// Rows of each data set that an epoch uses: all of them, unless round robin ends it early.
  std::vector<std::size_t> rows_per_epoch(std::size_t epoch = 0) const;
  /// The global batch of a step; step < steps_per_epoch(epoch). Can be called from any thread.
  BatchRows batch(std::size_t epoch, std::size_t step) const;

 private:
  struct Slot {  // batch `index` of a data set
    std::size_t dataset;
    std::size_t index;
  };
  struct Plans;  // with no_duplicates: the batches of one epoch

  std::uint64_t key(std::size_t epoch, std::size_t stream) const;
  std::size_t row_at(std::size_t epoch, std::size_t dataset, std::size_t position) const;
  std::vector<std::vector<std::size_t>> plan(std::size_t epoch, std::size_t dataset) const;
  std::shared_ptr<const Plans> plans(std::size_t epoch) const;
  std::vector<std::size_t> batch_counts(std::size_t epoch) const;
  Slot slot(std::size_t epoch, std::size_t step) const;

  std::vector<const TextDataset*> datasets_;
  SamplerOptions options_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Plans> plans_[2];  // of the last two epochs used, latest first
};

}  // namespace ringlet::train
