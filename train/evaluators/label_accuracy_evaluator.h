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
class LabelAccuracyEvaluator final : public Evaluator {
 public:
  struct Options {
    std::string name = {};
    std::size_t batch_size = 32;
  };
  /// `loss` has logits(batch), (rows, classes), like SoftmaxLoss. InputError without labels.
  template <class Loss>
  LabelAccuracyEvaluator(std::shared_ptr<const TextDataset> dataset,
                         const std::shared_ptr<Loss>& loss, Options options)
      : LabelAccuracyEvaluator(
            std::move(dataset), *loss,
            [loss](const models::PackedBatch& batch) { return loss->logits(batch); },
            std::move(options)) {}
  const char* kind() const override { return "LabelAccuracyEvaluator"; }

  /// `model` is the loss's encoder; its tokenizer alone is used. Dropout is off during the
  /// evaluation. A label without a class is InputError.
  Report report(const models::SentenceEncoder& model,
                const EvaluationPoint& at = {}) const override;

 private:
  using Logits = std::function<Variable(const models::PackedBatch&)>;
  LabelAccuracyEvaluator(std::shared_ptr<const TextDataset> dataset, nn::Module& module,
                         Logits logits, Options options);

  Options options_;
  std::shared_ptr<const TextDataset> dataset_;
  nn::Module& module_;
  Logits logits_;
};

}  // namespace ringlet::train
