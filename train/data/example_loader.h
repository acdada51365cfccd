// Batches of numbered examples, made by a collate function: the loader of a loop of your own.
//
//   const auto collate = [&](const Rows& rows) { return collate_digits(digits, rows); };
//   ExampleLoader loader(digits.count, collate, {.batch_size = 64}, world);
//   for (const DigitBatch& batch : loader) loader.weigh(loss(batch)).backward();
#pragma once

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "ringlet/train/data/example_sampler.h"

namespace ringlet::train {

/// Each rank makes only its batches. Their weighed losses add up to the mean over the step's rows,
/// also in an epoch's last step, whatever rows are left for each rank.
template <class BatchType>
class ExampleLoader final : public StepLoader {
 public:
  using Batch = BatchType;
  using Collate = std::function<Batch(const Rows& rows)>;

  /// A group of several ranks replaces the options' rank and world_size.
  ExampleLoader(std::size_t examples, Collate collate, ExampleOptions options = {},
                const comm::Group& group = {})
      : sampler_(examples, dealt(options, group)), collate_(std::move(collate)) {}

  void deal(const comm::Group& group, std::size_t accumulation, bool split_batches) override {
    sampler_ = ExampleSampler(sampler_.examples(),
                              dealt(sampler_.options(), group, accumulation, split_batches));
    seek(position_);
  }
  Position position() const override { return position_; }
  void seek(Position position) override {
    position_ = position;
    step_.clear();
    next_ = 0;
    epoch_ended_ = false;
  }
  UpdateArguments arguments() const override { return sampler_.arguments(); }
  std::size_t examples() const { return sampler_.examples(); }
  std::size_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }

  /// Iterates from position() to the end of that epoch. Another loop continues with the next epoch,
  /// in another order.
  BatchIterator<ExampleLoader> begin() { return BatchIterator(*this); }
  std::default_sentinel_t end() const { return {}; }

  /// The next batch, or null at the end of an epoch (once). It is valid until the next call.
  const Batch* next() {
    if (next_ == step_.size()) {
      if (std::exchange(epoch_ended_, false)) {
        *share_ = {};
        return nullptr;
      }
      step_ = sampler_.batches(position_);
      next_ = 0;
    }
    const ExampleBatch& mine = step_[next_++];
    *share_ = mine;
    if (next_ == step_.size() && ++position_.step == steps_per_epoch()) {
      position_ = {position_.epoch + 1, 0};
      epoch_ended_ = true;
    }
    batch_.emplace(collate_(Rows(mine.examples, mine.first)));
    return &*batch_;
  }

 private:
  ExampleSampler sampler_;
  Collate collate_;
  Position position_;
  std::vector<ExampleBatch> step_;  // this rank's batches of the step that was begun last
  std::size_t next_ = 0;            // of those
  bool epoch_ended_ = false;
  std::optional<Batch> batch_;
};

template <class Collate>
ExampleLoader(std::size_t, Collate, ExampleOptions = {}, const comm::Group& = {})
    -> ExampleLoader<std::invoke_result_t<Collate, const Rows&>>;

}  // namespace ringlet::train
