// The common part of loaders: a step's batches, this rank's share of each, and iteration.
#pragma once

#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "ringlet/autograd/functions/elementwise.h"
#include "ringlet/comm/group.h"

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

/// The part of its step that a batch is. By default it is a whole step.
struct BatchShare {
  /// Rows of this rank's batch that count. It may hold one more that does not: see ExampleSampler.
  std::size_t rows = std::numeric_limits<std::size_t>::max();
  double factor = 1;      // of its loss: the products add up to the loss of the step
  bool ends_step = true;  // the step has no further batch

  /// The batch's summand of the step's loss, over all ranks; `loss` is computed from it alone.
  Variable weigh(const Variable& loss) const { return factor == 1 ? loss : loss * factor; }
};

class StepLoader {
 public:
  StepLoader() = default;
  virtual ~StepLoader() = default;
  StepLoader(const StepLoader&) = delete;
  StepLoader& operator=(const StepLoader&) = delete;
  /// The rows are dealt out to the ranks of `group` from here on, `accumulation` batches a step.
  /// `split_batches` divides the batch size by the ranks, else each has batches of that size.
  virtual void deal(const comm::Group& group, std::size_t accumulation, bool split_batches) = 0;
  /// The position of the next batch. Inside a step it is that step's.
  virtual Position position() const = 0;
  /// Moves to the beginning of a step.
  virtual void seek(Position position) = 0;
  /// The data and its division into steps, which must agree to resume.
  virtual UpdateArguments arguments() const = 0;

  /// The share of the batch that was returned last.
  const BatchShare& share() const { return *share_; }
  Variable weigh(const Variable& loss) const { return share_->weigh(loss); }
  /// Expires with the loader.
  std::weak_ptr<const void> lifetime() const { return lifetime_; }
  /// Several loaders may write theirs to one place; the latest batch's is there.
  void write_share_to(std::shared_ptr<BatchShare> place) { share_ = std::move(place); }

 protected:
  std::shared_ptr<BatchShare> share_ = std::make_shared<BatchShare>();

 private:
  std::shared_ptr<const void> lifetime_ = std::make_shared<char>();
};

/// A loader's options, checked; a group of several ranks replaces their rank and world_size.
template <class Options>
Options dealt(Options options, const comm::Group& group) {
  if (options.batch_size == 0) fail_input("batch size: expected at least 1, found 0");
  if (options.accumulation == 0) fail_input("gradient accumulation: expected at least 1, found 0");
  if (group.size() == 1) return options;
  options.rank = static_cast<std::size_t>(group.rank());
  options.world_size = static_cast<std::size_t>(group.size());
  return options;
}

/// The same for StepLoader::deal. InputError if the batch cannot be split.
template <class Options>
Options dealt(Options options, const comm::Group& group, std::size_t accumulation,
              bool split_batches) {
  const auto ranks = static_cast<std::size_t>(group.size());
  if (split_batches && options.batch_size % ranks != 0)
    fail_input("split_batches: expected a batch size divisible by ", ranks, " ranks, found ",
               options.batch_size);
  if (split_batches) options.batch_size /= ranks;
  options.accumulation = accumulation;
  return dealt(options, group);
}

/// Iterates over a loader with next(), which returns null at the end of an epoch.
template <class Loader>
class BatchIterator {
 public:
  using value_type = typename Loader::Batch;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  explicit BatchIterator(Loader& loader) : loader_(&loader), batch_(loader.next()) {}
  const value_type& operator*() const { return *batch_; }
  const value_type* operator->() const { return batch_; }
  BatchIterator& operator++() {
    batch_ = loader_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return batch_ == nullptr; }

 private:
  Loader* loader_;
  const value_type* batch_;
};

}  // namespace ringlet::train
