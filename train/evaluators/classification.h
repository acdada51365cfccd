// Accuracy and loss of a classifier, and the evaluator of its accuracy on labelled rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ringlet/core/ops/cross_entropy.h"
#include "ringlet/core/ops/reduce.h"
#include "ringlet/core/tensor/tensor.h"
#include "ringlet/models/batch.h"
#include "ringlet/nn/module.h"
#include "ringlet/train/evaluators/evaluator.h"
#include "ringlet/train/report/metrics.h"

namespace ringlet::train {

/// Sums over batches of different size, so that every row counts once.
class ClassificationMeter {
 public:
  /// logits (or log-probabilities) (R, C), labels (R) i64; R may be 0.
  void add(const Tensor& logits, const Tensor& labels) {
    RINGLET_CHECK_EQ(logits.size(0), labels.numel(), "[classification] logits and labels");
    if (labels.numel() == 0) return;
    const auto predicted = argmax(logits, 1).to_vector<std::int64_t>();
    const auto expected = labels.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < expected.size(); ++i) correct_ += predicted[i] == expected[i];
    rows_ += labels.numel();
    loss_sum_ += cross_entropy(logits, labels, 1).loss.item<double>();
  }

  /// Adds up what the ranks have counted; each then has the figures of all.
  void all_reduce(const comm::Group& group) {
    const Metrics sums = sum_over_ranks({{"rows", static_cast<double>(rows_)},
                                         {"correct", static_cast<double>(correct_)},
                                         {"loss", loss_sum_}},
                                        group);
    rows_ = static_cast<std::int64_t>(sums[0].second);
    correct_ = static_cast<std::int64_t>(sums[1].second);
    loss_sum_ = sums[2].second;
  }

  std::int64_t rows() const { return rows_; }
  /// Share of rows in which the label has the largest logit; NaN without rows.
  double accuracy() const { return static_cast<double>(correct_) / static_cast<double>(rows_); }
  /// Mean cross-entropy; NaN without rows.
  double loss() const { return loss_sum_ / static_cast<double>(rows_); }
  /// Both by the names that Trainer's evaluations have.
  Metrics metrics() const { return {{"eval_loss", loss()}, {"eval_accuracy", accuracy()}}; }

 private:
  std::int64_t rows_ = 0;
  std::int64_t correct_ = 0;
  double loss_sum_ = 0;
};

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
