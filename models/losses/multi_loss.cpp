#include "ringlet/models/losses/multi_loss.h"

#include <algorithm>

namespace ringlet::models {

MultiLoss::MultiLoss(std::shared_ptr<nn::Module> shared, std::vector<std::shared_ptr<Loss>> losses)
    : losses_(std::move(losses)) {
  // The first name of a tied parameter counts: the encoder goes first, under no name.
  register_module("", std::move(shared));
  for (std::size_t i = 0; i < losses_.size(); ++i)
    register_module(concat("losses.", i), losses_[i]);
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
