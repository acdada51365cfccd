#include "ringlet/train/evaluators/batches_in_turn.h"

#include <algorithm>

namespace ringlet::train {

namespace {

/// The rows of a rank's batches. A rank without any has a row, of which it takes an empty batch.
std::shared_ptr<const TextDataset> rows_of_rank(const TextDataset& all, std::size_t batch_size,
                                                std::size_t rank, std::size_t ranks) {
  std::vector<std::size_t> mine;
  for (std::size_t begin = rank * batch_size; begin < all.size(); begin += ranks * batch_size)
    for (std::size_t row = begin; row < std::min(begin + batch_size, all.size()); ++row)
      mine.push_back(row);
  if (mine.empty()) mine.push_back(0);
  return std::make_shared<const TextDataset>(all.select(mine));
}

}  // namespace

void for_batches_in_turn(
    const std::shared_ptr<const TextDataset>& dataset, const models::Tokenizer& tokenizer,
    const InTurnOptions& options, const comm::Group& group,
    const std::function<void(const models::PackedBatch& batch, std::int64_t number)>& run) {
  const auto rank = static_cast<std::size_t>(group.rank());
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::size_t batches = (dataset->size() + options.batch_size - 1) / options.batch_size;
  const auto mine = ranks == 1 ? dataset : rows_of_rank(*dataset, options.batch_size, rank, ranks);
  Loader loader({mine}, tokenizer,
                {.batch_size = std::min(options.batch_size, mine->size()),
                 .shuffle = false,
                 .max_length = options.max_length,
                 .padded = options.padded,
                 .prompts = options.prompts});
  models::PackedBatch last;
  std::size_t number = rank;
  for (const models::PackedBatch& batch : loader) {
    if (number < batches) run(batch, static_cast<std::int64_t>(number));
    number += ranks;
    last = batch;
  }
  if (rank >= batches || (batches % ranks != 0 && rank >= batches % ranks))
    run(last.select({}), -1);
}

}  // namespace ringlet::train
