#include "ringlet/models/losses/loss.h"

#include "ringlet/models/batch.h"
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

MultiLoss::MultiLoss(std::shared_ptr<nn::Module> shared, std::vector<std::shared_ptr<Loss>> losses)
    : shared_(std::move(shared)), losses_(std::move(losses)) {
  // The first name of a tied parameter counts: the encoder is registered first, without a name.
  register_module("", shared_);
  for (std::size_t i = 0; i < losses_.size(); ++i) register_module(str("losses.", i), losses_[i]);
}

std::shared_ptr<nn::Module> MultiLoss::blank_copy(nn::Cloner& cloner) const {
  std::vector<std::shared_ptr<Loss>> copies;
  for (const auto& loss : losses_) copies.push_back(cloner(loss));
  return std::make_shared<MultiLoss>(cloner(shared_), std::move(copies));
}

Loss& MultiLoss::loss_for(std::size_t dataset) const {
  RINGLET_CHECK(dataset < losses_.size(), "[multi_loss] data set ", dataset, " of ", losses_.size(),
                " losses");
  return *losses_[dataset];
}

Loss& MultiLoss::loss_of(const PackedBatch& batch) {
  return loss_for(batch.dataset).loss_of(batch);
}

}  // namespace ringlet::models
