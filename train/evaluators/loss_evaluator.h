// The mean loss of a data set that no step trains.
#pragma once

#include <memory>
#include <string>

#include "ringlet/models/losses/loss.h"
#include "ringlet/train/evaluators/batches_in_turn.h"
#include "ringlet/train/report/metrics.h"

namespace ringlet::train {

class LossEvaluator {
 public:
  struct Options {
    std::string name = "eval_loss";  // of the figure
    std::size_t loss = 0;            // index of the training data set with the same loss
    InTurnOptions batches = {};      // negatives from other rows are those of one batch
  };
  /// `loss` must outlive it; `tokenizer` is its encoder's. InputError for a data set without rows.
  LossEvaluator(models::Loss& loss, std::shared_ptr<const TextDataset> dataset,
                const models::Tokenizer& tokenizer, Options options);

  /// The mean over all rows, in evaluation mode and without gradients. Under every strategy and on
  /// any number of ranks the batches are the same, and the sum is in their order.
  Metrics operator()(const EvaluationPoint& at) const;

 private:
  models::Loss* loss_;
  std::shared_ptr<const TextDataset> dataset_;
  std::shared_ptr<const models::Tokenizer> tokenizer_;
  Options options_;
};

}  // namespace ringlet::train
