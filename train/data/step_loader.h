// The part of loaders that does not depend on their batches: a step's rows, dealt out to ranks, and
// this rank's share of each batch.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/autograd/functions.h"
#include "ringlet/comm/group.h"
#include "ringlet/core/ops/sum_tree.h"
#include "ringlet/train/data/dataset.h"
#include "ringlet/train/data/sampler.h"

namespace ringlet::train {

/// A position in the data: the next step to be trained.
struct Position {
  std::size_t epoch = 0;
  std::size_t step = 0;  // in the epoch
  bool operator==(const Position&) const = default;
};

/// Settings that change the bits of a run: name to value, as text. Equal texts are equal values.
/// Names contain the option of `ringlet train` that sets the value.
using UpdateArguments = std::map<std::string, std::string>;
inline constexpr const char* kRowsOfAStep =
    "rows of a step (--batch, --devices, --gradient-accumulation-steps)";
inline constexpr const char* kOrder = "order (--no-shuffle)";
inline constexpr const char *kShuffled = "shuffled", *kAsGiven = "as given";  // its values

/// Options for text are refused with examples.
struct LoaderOptions {
  /// Rows of one batch on one device.
  std::size_t batch_size = 32;
  /// Batches of one step on one rank. All batches of a step, on all ranks, are parts of one global
  /// batch of rows_per_step() rows; an epoch's last one has the rows that are left.
  std::size_t accumulation = 1;
  /// Text: rows of one forward on one device; 0: all. Losses of embeddings then need the memory of
  /// so many rows, for a second forward (models::EmbeddingLoss).
  std::size_t mini_batch_size = 0;
  /// Text: for each data set, whether its loss compares the rows of a global batch
  /// (Loss::spans_ranks). A rank's batches of a step are then one, with forwards of at most
  /// batch_size rows.
  std::vector<bool> whole_steps = {};
  std::uint64_t seed = 0;
  Dealing dealing = Dealing::proportional;  // text
  bool shuffle = true;
  BatchSampler batch_sampler = BatchSampler::batch_sampler;  // text
  /// Text: its longest in tokens, special ones included; 0 leaves the tokenizer's limit.
  std::int64_t max_length = 0;
  /// Text: fills sentences up to the longest of their column; only to show what padding costs.
  bool padded = false;
  Prompts prompts = {};  // text
  /// A loss is this rank's part of the mean over the global batch: gradients are to be summed over
  /// the ranks. Ranks that train apart, as in local SGD, multiply it by global_rows / rows.
  std::size_t rank = 0;
  std::size_t world_size = 1;
  /// A global batch is dealt to so many logical ranks; 0: to world_size. Each rank has the batches
  /// of a contiguous block of them (core/ops/sum_tree.h), logical rank by logical rank.
  std::size_t logical_ranks = 0;
  /// Every rank has equally many batches, for forwards that are collective. A rank with fewer
  /// logical ranks has its first one twice; the first time does not count.
  bool equal_batches = false;
  /// Text: devices of this one rank. Each batch holds batch_size rows for each of them, dealt out
  /// as to so many ranks.
  std::size_t devices = 1;

  /// The ranks that a global batch is dealt to.
  std::size_t dealt_ranks() const { return logical_ranks > 0 ? logical_ranks : world_size; }
  /// The block of this rank.
  LeafRange block() const {
    return leaves_of_rank(static_cast<int>(rank), static_cast<int>(world_size),
                          static_cast<int>(dealt_ranks()));
  }
  /// Rows of a global batch.
  std::size_t rows_per_step() const { return batch_size * accumulation * dealt_ranks() * devices; }
};

/// The part of its step that a batch is. By default it is a whole step.
struct BatchShare {
  /// Rows of this rank's batch that count. It may hold one more that does not: see Loader.
  std::size_t rows = std::numeric_limits<std::size_t>::max();
  double factor = 1;      // of its loss: the products add up to the loss of the step
  bool ends_rank = true;  // the step has no further batch of this logical rank
  bool ends_step = true;  // nor of another one of this rank
  bool counts = true;     // else it lines up collectives: its gradients are to be dropped

  /// The batch's summand of the step's loss, over all ranks; `loss` is computed from it alone.
  Variable weigh(const Variable& loss) const { return factor == 1 ? loss : loss * factor; }
};

class StepLoader {
 public:
  virtual ~StepLoader() = default;
  StepLoader(const StepLoader&) = delete;
  StepLoader& operator=(const StepLoader&) = delete;
  /// The rows are dealt out to the ranks of `group` from here on, `accumulation` batches a step.
  /// `split_batches` divides the batch size by the ranks, else each has batches of that size.
  /// `logical_ranks`, `equal_batches`: see LoaderOptions.
  void deal(const comm::Group& group, std::size_t accumulation, bool split_batches,
            std::size_t logical_ranks = 0, bool equal_batches = false);
  /// The position of the next batch. Inside a step it is that step's.
  Position position() const { return position_; }
  /// Moves to the beginning of a step.
  void seek(Position position);
  /// The data and its division into steps, which must agree to resume.
  UpdateArguments arguments() const;
  const Sampler& sampler() const { return *sampler_; }
  std::size_t steps_per_epoch(std::size_t epoch = 0) const {
    return sampler_->steps_per_epoch(epoch);
  }
  const Datasets& datasets() const { return datasets_; }  // empty: examples
  const LoaderOptions& options() const { return options_; }

  /// The share of the batch that was returned last.
  const BatchShare& share() const { return *share_; }
  Variable weigh(const Variable& loss) const { return share_->weigh(loss); }
  /// Expires with the loader.
  std::weak_ptr<const void> lifetime() const { return lifetime_; }
  /// Several loaders may write theirs to one place; the latest batch's is there.
  void write_share_to(std::shared_ptr<BatchShare> place) { share_ = std::move(place); }
  /// The time that callers have waited for batches so far.
  double seconds_waited() const { return waited_; }

 protected:
  /// The rows are those of data sets, or numbered examples.
  StepLoader(Datasets datasets, std::optional<std::size_t> examples, LoaderOptions options,
             const comm::Group& group);
  /// Batches that were made ahead are dropped.
  virtual void restart() = 0;

  Position position_;
  std::shared_ptr<BatchShare> share_ = std::make_shared<BatchShare>();
  double waited_ = 0;
  bool of_group_;

 private:
  void make_sampler();

  Datasets datasets_;
  std::optional<std::size_t> examples_;
  mutable std::vector<std::string> digests_;  // of each data set, at the first use
  LoaderOptions options_;
  std::optional<Sampler> sampler_;
  std::shared_ptr<const void> lifetime_ = std::make_shared<char>();
};

}  // namespace ringlet::train
