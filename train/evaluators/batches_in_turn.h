// A data set's batches, divided among the ranks that evaluate together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ringlet/comm/group.h"
#include "ringlet/models/batch.h"
#include "ringlet/train/data/loader.h"

namespace ringlet::train {

struct InTurnOptions {
  std::size_t batch_size = 32;
  std::int64_t max_length = 0;  // as LoaderOptions'
  bool padded = false;
  Prompts prompts = {};
};

/// Cuts the rows, in their order, into batches that do not depend on the number of ranks. They go
/// to the ranks alternately; run(batch, number) is called for each of this rank's. Some ranks end
/// with an empty batch, number -1, so that all run equally many: a sharded module needs every rank.
void for_batches_in_turn(
    const std::shared_ptr<const TextDataset>& dataset, const models::Tokenizer& tokenizer,
    const InTurnOptions& options, const comm::Group& group,
    const std::function<void(const models::PackedBatch& batch, std::int64_t number)>& run);

}  // namespace ringlet::train
