#include "ringlet/train/data/example_sampler.h"

#include <algorithm>

#include "ringlet/train/data/hash.h"
#include "ringlet/train/data/permutation.h"

namespace ringlet::train {

ExampleSampler::ExampleSampler(std::size_t examples, ExampleOptions options)
    : examples_(examples), options_(dealt(options, {})) {
  if (examples == 0) fail_input("examples: expected at least one, found none");
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

std::vector<ExampleBatch> ExampleSampler::batches(Position position) const {
  const std::vector<std::size_t> all = rows(position);
  const std::size_t size = options_.batch_size, round = size * options_.world_size;
  std::vector<ExampleBatch> batches;
  for (std::size_t at = 0; at < all.size(); at += round) {
    const std::size_t mine = at + options_.rank * size;
    const std::size_t n = mine < all.size() ? std::min(size, all.size() - mine) : 0;
    const std::size_t begin = n > 0 ? mine : at;
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin);
    const double share = static_cast<double>(n) / static_cast<double>(all.size());
    batches.push_back({{n, share, at + round >= all.size()},
                       {from, from + static_cast<std::ptrdiff_t>(std::max<std::size_t>(n, 1))},
                       begin});
  }
  return batches;
}

UpdateArguments ExampleSampler::arguments() const {
  return {{"examples", str(examples_)},
          {kRowsOfAStep, str(rows_per_step())},
          {"--seed", str(options_.seed)},
          {kOrder, options_.shuffle ? kShuffled : kAsGiven}};
}

}  // namespace ringlet::train
