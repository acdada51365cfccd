// Numbered examples: which of them form a step, and each rank's batches of it.
#pragma once

#include <span>
#include <vector>

#include "ringlet/train/data/step_loader.h"

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

/// A rank's batch of a step.
struct ExampleBatch : BatchShare {
  std::vector<std::size_t> examples;
  std::size_t first = 0;  // position of the first in the step
};

/// Which examples form a step: a pure function of (seed, epoch, step). The last step of an epoch
/// has the remaining ones.
class ExampleSampler {
 public:
  ExampleSampler(std::size_t examples, ExampleOptions options);
  std::size_t steps_per_epoch() const;
  std::vector<std::size_t> rows(Position position) const;
  /// This rank's part of those rows. Every rank has equally many batches: one without rows has the
  /// first row of its round, which does not count.
  std::vector<ExampleBatch> batches(Position position) const;
  std::size_t examples() const { return examples_; }
  const ExampleOptions& options() const { return options_; }
  UpdateArguments arguments() const;

 private:
  std::size_t rows_per_step() const {
    return options_.batch_size * options_.accumulation * options_.world_size;
  }
  std::size_t examples_;
  ExampleOptions options_;
};

}  // namespace ringlet::train
