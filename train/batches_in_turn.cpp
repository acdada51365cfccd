#include "ringlet/train/batches_in_turn.h"

#include <algorithm>

namespace ringlet::train {

void for_batches_in_turn(
    const std::shared_ptr<const TextDataset>& dataset, const models::Tokenizer& tokenizer,
    const InTurnOptions& options, const comm::Group& group,
    const std::function<void(const models::PackedBatch& batch, std::int64_t number)>& run) {
  Loader loader({dataset}, tokenizer,
                {.batch_size = std::min(options.batch_size, dataset->size()),
                 .shuffle = false,
                 .max_length = options.max_length,
                 .padded = options.padded,
                 .prompts = options.prompts});
  const std::int64_t rank = group.rank(), ranks = group.size();
  std::int64_t number = 0;
  models::PackedBatch last;
  for (const models::PackedBatch& batch : loader) {
    if (number % ranks == rank) run(batch, number);
    ++number;
    last = batch;
  }
  if (number % ranks != 0 && rank >= number % ranks) run(last.select({}), -1);
}

}  // namespace ringlet::train
