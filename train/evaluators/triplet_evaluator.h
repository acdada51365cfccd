// How often an anchor is more similar to its positive than to its negative.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ringlet/train/evaluators/evaluator.h"
#include "ringlet/train/evaluators/search/similarity.h"

namespace ringlet::train {

/// Metrics "cosine_accuracy", …; for several similarities also "max_accuracy", the primary one. The
/// anchor is embedded as a query, the others as documents. The table is
/// triplet_evaluation_NAME_results.csv.
class TripletEvaluator final : public Evaluator {
 public:
  struct Options {
    std::string name = {};
    std::vector<Similarity> similarities = {};  // empty: the model's similarity_fn_name
    std::map<Similarity, double> margins = {};  // the difference must be larger than this; 0
    models::EncodeOptions encode = {};
  };
  /// InputError unless it has rows of three columns.
  TripletEvaluator(const TextDataset& dataset, Options options);
  const char* kind() const override { return "TripletEvaluator"; }

  Report report(const models::SentenceEncoder& model,
                const EvaluationPoint& at = {}) const override;
  /// For given embeddings, (rows, H) of each column.
  Report report_of(const Tensor& anchors, const Tensor& positives, const Tensor& negatives,
                   Similarity own = Similarity::cosine, const EvaluationPoint& at = {}) const;

 private:
  Options options_;
  std::vector<std::string> anchors_, positives_, negatives_;
};

}  // namespace ringlet::train
