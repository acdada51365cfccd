// Training any module on numbered examples: a collate function makes a batch of some of them, and a
// loss hook computes one number from it.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "ringlet/autograd/functions/elementwise.h"
#include "ringlet/train/parallel/no_sync.h"
#include "ringlet/train/task.h"

namespace ringlet::train {

/// Numbers of examples; a span, so a collate function may take it as one.
struct Rows : std::span<const std::size_t> {
  Rows(std::span<const std::size_t> rows, std::size_t first = 0)
      : std::span<const std::size_t>(rows), first(first) {}
  std::size_t first;  // position of the first in the step: keys dropout masks
};

struct ExampleOptions {
  std::size_t batch_size = 32;
  /// Batches of one step on one rank; the step's rows are batch_size * accumulation * world_size.
  std::size_t accumulation = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::size_t rank = 0;
  std::size_t world_size = 1;
};

/// Which examples form a step: a pure function of (seed, epoch, step). The last step of an epoch
/// has the remaining ones.
class ExampleSampler {
 public:
  ExampleSampler(std::size_t examples, ExampleOptions options);
  std::size_t steps_per_epoch() const;
  std::vector<std::size_t> rows(Position position) const;
  const ExampleOptions& options() const { return options_; }
  UpdateArguments arguments() const;

 private:
  std::size_t rows_per_step() const {
    return options_.batch_size * options_.accumulation * options_.world_size;
  }
  std::size_t examples_;
  ExampleOptions options_;
};

template <class Batch>
class ExampleTask final : public TrainingTask {
 public:
  using Collate = std::function<Batch(const Rows& rows)>;
  using LossHook = std::function<Variable(const Batch& batch)>;  // mean over the batch's rows

  ExampleTask(nn::Module& module, std::size_t examples, Collate collate, LossHook loss,
              ExampleOptions options = {})
      : module_(module),
        sampler_(examples, options),
        collate_(std::move(collate)),
        loss_(std::move(loss)) {}

  nn::Module& module() override { return module_; }
  std::size_t steps_per_epoch(std::size_t) const override { return sampler_.steps_per_epoch(); }
  void seek(Position position) override { position_ = position; }
  UpdateArguments arguments() const override { return sampler_.arguments(); }

  StepResult step() override {
    const std::vector<std::size_t> rows = sampler_.rows(position_);
    const ExampleOptions& options = sampler_.options();
    StepResult result;
    // Ranks run equally many batches: one without rows runs the round's first row with weight 0.
    const std::size_t round = options.batch_size * options.world_size;
    for (std::size_t at = 0; at < rows.size(); at += round) {
      std::optional<NoSync> no_sync;
      if (at + round < rows.size()) no_sync.emplace(pause_);
      const std::size_t mine = at + options.rank * options.batch_size;
      const std::size_t n =
          mine < rows.size() ? std::min(options.batch_size, rows.size() - mine) : 0;
      const std::size_t begin = n > 0 ? mine : at;
      const auto share = static_cast<double>(n) / static_cast<double>(rows.size());
      const auto start = std::chrono::steady_clock::now();
      const Batch batch =
          collate_(Rows(std::span(rows).subspan(begin, std::max<std::size_t>(n, 1)), begin));
      result.data_seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const Variable value = loss_(batch);
      (n == rows.size() ? value : value * share).backward();
      add_loss(value.tensor(), share);
      result.rows += static_cast<std::int64_t>(n);
    }
    if (++position_.step == sampler_.steps_per_epoch()) position_ = {position_.epoch + 1, 0};
    return result;
  }

 private:
  nn::Module& module_;
  ExampleSampler sampler_;
  Collate collate_;
  LossHook loss_;
  Position position_;
};

}  // namespace ringlet::train
