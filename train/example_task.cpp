#include "ringlet/train/example_task.h"

#include "ringlet/train/data/hash.h"
#include "ringlet/train/data/permutation.h"

namespace ringlet::train {

ExampleSampler::ExampleSampler(std::size_t examples, ExampleOptions options)
    : examples_(examples), options_(options) {
  if (examples == 0) fail_input("examples: expected at least one, found none");
  if (options.batch_size == 0) fail_input("batch size: expected at least 1, found 0");
  if (options.accumulation == 0) fail_input("gradient accumulation: expected at least 1, found 0");
}

std::size_t ExampleSampler::steps_per_epoch() const {
  return (examples_ + rows_per_step() - 1) / rows_per_step();
}

std::vector<std::size_t> ExampleSampler::rows(Position position) const {
  RINGLET_CHECK(position.step < steps_per_epoch(), "[ExampleSampler] step ", position.step, " of ",
                steps_per_epoch());
  const Permutation order(examples_, mix64(options_.seed, position.epoch));
  const std::size_t begin = position.step * rows_per_step();
  std::vector<std::size_t> rows;
  for (std::size_t i = begin; i < std::min(begin + rows_per_step(), examples_); ++i)
    rows.push_back(options_.shuffle ? order(i) : i);
  return rows;
}

UpdateArguments ExampleSampler::arguments() const {
  return {{"examples", str(examples_)},
          {kRowsOfAStep, str(rows_per_step())},
          {"--seed", str(options_.seed)},
          {kOrder, options_.shuffle ? "shuffled" : "as given"}};
}

}  // namespace ringlet::train
