#include "ringlet/models/losses/multi_loss.h"

#include <algorithm>

namespace ringlet::models {

MultiLoss::MultiLoss(std::shared_ptr<nn::Module> shared, std::vector<std::shared_ptr<Loss>> losses)
    : shared_(std::move(shared)), losses_(std::move(losses)) {
  // The first name of a tied parameter counts: the encoder goes first, under no name.
  register_module("", shared_);
  for (std::size_t i = 0; i < losses_.size(); ++i)
    register_module(concat("losses.", i), losses_[i]);
}

std::shared_ptr<nn::Module> MultiLoss::blank_copy(nn::Cloner& cloner) const {
  std::vector<std::shared_ptr<Loss>> copies;
  for (const auto& loss : losses_) copies.push_back(cloner(loss));
  return std::make_shared<MultiLoss>(cloner(shared_), std::move(copies));
}

std::int64_t MultiLoss::min_rows() const {
  std::int64_t rows = 1;
  for (const auto& loss : losses_) rows = std::max(rows, loss->min_rows());
  return rows;
}

Loss& MultiLoss::loss_of(const PackedBatch& batch) {
  RINGLET_CHECK(batch.dataset < losses_.size(), "[multi_loss] data set ", batch.dataset, " of ",
                losses_.size(), " losses");
  return losses_[batch.dataset]->loss_of(batch);
}

}  // namespace ringlet::models
