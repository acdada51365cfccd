// Several data sets, each with a separate loss, in one module.
#pragma once

#include <memory>
#include <vector>

#include "ringlet/models/losses/loss.h"

namespace ringlet::models {

/// Batches of data set i go to loss i. The losses share an encoder, which keeps its names; the
/// other parameters of loss i are called "losses.i.NAME".
class MultiLoss : public Loss {
 public:
  /// `shared` is the encoder's module, SentenceEncoder::modules().
  MultiLoss(std::shared_ptr<nn::Module> shared, std::vector<std::shared_ptr<Loss>> losses);

  const char* kind() const override { return "MultiLoss"; }
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override;
  const std::vector<std::shared_ptr<Loss>>& losses() const { return losses_; }
  std::int64_t min_rows(std::size_t dataset, std::int64_t columns) const override {
    return loss_for(dataset).min_rows(dataset, columns);
  }
  bool spans_ranks(std::size_t dataset) const override {
    return loss_for(dataset).spans_ranks(dataset);
  }
  std::string describe(std::size_t dataset) const override {
    return loss_for(dataset).describe(dataset);
  }
  Loss& loss_of(const PackedBatch& batch) override;

 protected:
  Variable forward(const PackedBatch& batch) override { return loss_of(batch)(batch); }

 private:
  Loss& loss_for(std::size_t dataset) const;

  std::shared_ptr<nn::Module> shared_;
  std::vector<std::shared_ptr<Loss>> losses_;
};

}  // namespace ringlet::models
