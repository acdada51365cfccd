// The ranks that compute the same rows: those of a pipeline and of tensor parallelism.
#pragma once

#include <span>

#include "ringlet/comm/group.h"
#include "ringlet/models/losses/loss.h"

namespace ringlet::train {

/// These ranks rely on equal rows for the sizes of messages and for the meaning of sums. All call
/// it with their micro-batches. Error if one has other rows; `rank` is this one's in
/// the world.
void check_same_rows(const comm::Group& group, int rank,
                     std::span<const models::PackedBatch> micro_batches);

/// While it lives, a loss checks each batch that it trains on.
class RowsCheck final : public models::BatchRunner {
 public:
  RowsCheck(models::Loss& loss, comm::Group group, int rank)
      : loss_(loss), group_(std::move(group)), rank_(rank) {
    loss.set_runner(this);
  }
  ~RowsCheck() override {
    if (loss_.runner() == this) loss_.set_runner(nullptr);
  }
  Variable run(const models::PackedBatch& batch) override {
    if (autograd::grad_enabled()) check_same_rows(group_, rank_, {&batch, 1});
    return loss_.run_here(batch);
  }

 private:
  models::Loss& loss_;
  comm::Group group_;
  int rank_;
};

}  // namespace ringlet::train
