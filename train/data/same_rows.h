// The ranks that compute the same rows: those of a pipeline and of tensor parallelism.
#pragma once

#include <span>

#include "ringlet/comm/group.h"
#include "ringlet/models/batch.h"

namespace ringlet::train {

/// These ranks rely on equal rows for the sizes of messages and for the meaning of sums. All call
/// it with their micro-batches from `first` on, on the CPU. Error, with the micro-batch, if one has
/// other rows; `rank` is this one's in the world.
void check_same_rows(const comm::Group& group, int rank,
                     std::span<const models::PackedBatch> micro_batches, std::size_t first = 0);

}  // namespace ringlet::train
