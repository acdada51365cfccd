// How well a threshold on the similarity of two sentences tells similar pairs from others.
#pragma once

#include <string>
#include <vector>

#include "ringlet/train/evaluators/evaluator.h"
#include "ringlet/train/evaluators/search/similarity.h"

namespace ringlet::train {

/// Metrics "cosine_accuracy", "cosine_accuracy_threshold", "cosine_f1", …, of which "cosine_ap" is
/// primary; for several similarities also "max_ap", …. Distances and their thresholds are positive.
/// The table is binary_classification_evaluation_NAME_results.csv.
class BinaryClassificationEvaluator final : public Evaluator {
 public:
  struct Options {
    std::string name = {};
    std::vector<Similarity> similarities = {};  // empty: the model's similarity_fn_name
    models::EncodeOptions encode = {};
  };
  /// InputError unless it has two columns and labels 0 or 1.
  BinaryClassificationEvaluator(const TextDataset& dataset, Options options);
  const char* kind() const override { return "BinaryClassificationEvaluator"; }

  Report report(const models::SentenceEncoder& model,
                const EvaluationPoint& at = {}) const override;
  /// For given embeddings, (rows, H) of each column.
  Report report_of(const Tensor& first, const Tensor& second, Similarity own = Similarity::cosine,
                   const EvaluationPoint& at = {}) const;

 private:
  Options options_;
  std::vector<std::string> first_, second_;
  std::vector<bool> similar_;
};

}  // namespace ringlet::train
