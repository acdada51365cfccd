// Accuracy of a trained classifier on labelled rows.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ringlet/models/batch.h"
#include "ringlet/nn/module.h"
#include "ringlet/train/evaluators/evaluator.h"

namespace ringlet::train {

/// The metric is "accuracy", the table accuracy_evaluation_NAME_results.csv.
class LabelAccuracyEvaluator {
 public:
  struct Options {
    std::string name = {};
    std::size_t batch_size = 32;
  };
  /// InputError unless it has labels.
  LabelAccuracyEvaluator(std::shared_ptr<const TextDataset> dataset, Options options);

  /// `loss` has logits(batch), (rows, classes), like SoftmaxLoss, and `tokenizer` is its encoder's.
  /// Dropout is off during the evaluation. A label without a class is InputError.
  template <class Loss>
  Report report(Loss& loss, const models::Tokenizer& tokenizer,
                const EvaluationPoint& at = {}) const {
    return run(
        loss, [&](const models::PackedBatch& batch) { return loss.logits(batch); }, tokenizer, at);
  }
  template <class Loss>
  Metrics evaluate(Loss& loss, const models::Tokenizer& tokenizer,
                   const EvaluationPoint& at = {}) const {
    return report(loss, tokenizer, at).metrics();
  }

 private:
  using Logits = std::function<Variable(const models::PackedBatch&)>;
  Report run(nn::Module& module, const Logits& logits, const models::Tokenizer& tokenizer,
             const EvaluationPoint& at) const;

  Options options_;
  std::shared_ptr<const TextDataset> dataset_;
};

}  // namespace ringlet::train
