// Correlation of the similarity of two sentences with a gold score.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/train/evaluators/evaluator.h"
#include "ringlet/train/evaluators/search/similarity.h"

namespace ringlet::train {

/// Metrics "pearson_cosine", "spearman_cosine", …; for several similarities "pearson_max" and
/// "spearman_max" as well. The table is similarity_evaluation_NAME_results.csv.
class EmbeddingSimilarityEvaluator final : public Evaluator {
 public:
  struct Options {
    std::string name = {};                      // of the data, in metrics and file names
    std::vector<Similarity> similarities = {};  // empty: the model's similarity_fn_name
    models::EncodeOptions encode = {};
  };
  /// Reads the file with read_dataset; its name without the ending is the default name.
  explicit EmbeddingSimilarityEvaluator(const std::filesystem::path& file);
  /// InputError unless it has two columns and scores that differ.
  EmbeddingSimilarityEvaluator(const TextDataset& dataset, Options options);
  const char* kind() const override { return "EmbeddingSimilarityEvaluator"; }

  Report report(const models::SentenceEncoder& model,
                const EvaluationPoint& at = {}) const override;
  /// For given embeddings, (rows, H) of each column; `own` is used if the options name no
  /// similarity.
  Report report_of(const Tensor& first, const Tensor& second, Similarity own = Similarity::cosine,
                   const EvaluationPoint& at = {}) const;

 private:
  Options options_;
  std::vector<std::string> first_, second_;
  std::vector<double> scores_;
};

}  // namespace ringlet::train
