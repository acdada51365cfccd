#include "ringlet/models/losses/multi_loss.h"

namespace ringlet::models {

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
