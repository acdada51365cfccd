// Training any module on numbered examples: a collate function makes a batch of some of them, a
// loss hook turns it into one number.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ringlet/autograd/functions/elementwise.h"
#include "ringlet/train/task.h"

namespace ringlet::train {

/// Numbers of examples; a span, so a collate function may take it as one.
struct Rows : std::span<const std::size_t> {
  Rows(std::span<const std::size_t> rows, std::size_t first = 0)
      : std::span<const std::size_t>(rows), first(first) {}
  std::size_t first;  // place of the first in the step: keys dropout masks
};

struct ExampleOptions {
  std::size_t batch_size = 32;
  /// Batches of one step; the step's rows are batch_size * accumulation.
  std::size_t accumulation = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;
};

/// Which examples form a step: a pure function of (seed, epoch, step). The last step of an epoch
/// has what is left.
class ExampleSampler {
 public:
  ExampleSampler(std::size_t examples, ExampleOptions options);
  std::size_t steps_per_epoch() const;
  std::vector<std::size_t> rows(Position position) const;
  const ExampleOptions& options() const { return options_; }
  std::string fingerprint() const;

 private:
  std::size_t rows_per_step() const { return options_.batch_size * options_.accumulation; }
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
  std::string fingerprint() const override { return sampler_.fingerprint(); }

  StepResult step() override {
    const std::vector<std::size_t> rows = sampler_.rows(position_);
    StepResult result;
    for (std::size_t begin = 0; begin < rows.size(); begin += sampler_.options().batch_size) {
      const std::size_t n = std::min(sampler_.options().batch_size, rows.size() - begin);
      const auto share = static_cast<double>(n) / static_cast<double>(rows.size());
      const Variable value = loss_(collate_(Rows(std::span(rows).subspan(begin, n), begin)));
      (n == rows.size() ? value : value * share).backward();
      result.loss += value.template item<double>() * share;
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
