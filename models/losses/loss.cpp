#include "ringlet/models/losses/loss.h"

#include "ringlet/models/token_bucket.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::models {

Variable Loss::run_here(const PackedBatch& batch) {
  check_ranks(batch);
  return enter([&] { return forward(placed_here(batch)); });
}

PackedBatch Loss::placed(const PackedBatch& batch) { return runner_ ? batch : placed_here(batch); }

PackedBatch Loss::placed_here(const PackedBatch& batch) {
  const Device device = this->device();
  if (!batch.token_ids.defined() || batch.token_ids.device() == device) return batch;
  const Loss& loss = loss_of(batch);
  if (loss.cuts(batch)) return batch;
  const std::int64_t tokens = bucket_of(batch);
  const bool fills = device.type != DeviceType::cpu && tokens > 0 && loss.is_capturable();
  return (fills ? filled_up(batch, tokens) : batch).to(device);
}

void Loss::check_ranks(const PackedBatch& batch) const {
  if (batch.ranks == 0 || !autograd::grad_enabled()) return;
  const auto sharding = nn::sharding_of(*this);
  if (!sharding) {
    RINGLET_CHECK(
        !batch.of_group, "[loss] the batch is one of ", batch.ranks,
        " ranks, its value a part of their mean, and no strategy sums the gradients: attach one, "
        "or give the Loader the options rank and world_size instead of the group and sum them "
        "yourself");
    return;
  }
  if (sharding->averages()) {
    RINGLET_CHECK(
        batch.ranks == 1 || local_mean_,
        "[loss] the value is divided by the rows of all ranks, and average divides again: "
        "leave average off, or call set_local_mean() on a loss that is a local mean");
    return;
  }
  RINGLET_CHECK(batch.ranks == sharding->logical_ranks(), "[loss] the batch is cut for a world of ",
                batch.ranks, ", gradients are summed over ", sharding->logical_ranks(),
                " ranks: give the Loader the strategy's group, or set its option average");
}

}  // namespace ringlet::models
