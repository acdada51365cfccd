// Evaluators of the embeddings of a file's rows.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ringlet/train/data/retrieval.h"
#include "ringlet/train/evaluators/evaluator.h"
#include "ringlet/train/evaluators/search/similarity.h"

namespace ringlet::train {

/// Figures of the embeddings of one or more columns of texts.
class EmbeddingEvaluator : public Evaluator {
 public:
  Report report(const models::SentenceEncoder& model, const EvaluationPoint& at = {}) const final;
  /// For given embeddings, (texts, H) of each column; `own` is used if the options name no
  /// similarity.
  virtual Report report_of(const std::vector<Tensor>& columns, Similarity own = Similarity::cosine,
                           const EvaluationPoint& at = {}) const = 0;

 protected:
  struct Column {
    std::vector<std::string> texts;
    TextRole role = TextRole::plain;
  };
  std::vector<Column> columns_;
};

struct SimilarityOptions {
  std::string name = {};                      // of the data, in metrics and file names
  std::vector<Similarity> similarities = {};  // empty: the model's similarity_fn_name
};

/// How well a threshold on the similarity of two sentences tells similar pairs from others. Metrics
/// "cosine_accuracy", "cosine_accuracy_threshold", "cosine_f1", …, of which "cosine_ap" is primary;
/// for several similarities also "max_ap", …. Distances and their thresholds are positive. The
/// table is binary_classification_evaluation_NAME_results.csv.
class BinaryClassificationEvaluator final : public EmbeddingEvaluator {
 public:
  using Options = SimilarityOptions;
  /// InputError unless it has two columns and labels 0 or 1.
  BinaryClassificationEvaluator(const TextDataset& dataset, Options options);
  const char* kind() const override { return "BinaryClassificationEvaluator"; }
  Report report_of(const std::vector<Tensor>& columns, Similarity own = Similarity::cosine,
                   const EvaluationPoint& at = {}) const override;

 private:
  Options options_;
  std::vector<bool> similar_;
};

/// Correlation of the similarity of two sentences with a gold score. Metrics "pearson_cosine",
/// "spearman_cosine", …; for several similarities "pearson_max" and "spearman_max" as well. The
/// table is similarity_evaluation_NAME_results.csv.
class EmbeddingSimilarityEvaluator final : public EmbeddingEvaluator {
 public:
  using Options = SimilarityOptions;
  /// Reads the file with read_dataset; its name without the ending is the default name.
  explicit EmbeddingSimilarityEvaluator(const std::filesystem::path& file);
  /// InputError unless it has two columns and scores that differ.
  EmbeddingSimilarityEvaluator(const TextDataset& dataset, Options options);
  const char* kind() const override { return "EmbeddingSimilarityEvaluator"; }
  Report report_of(const std::vector<Tensor>& columns, Similarity own = Similarity::cosine,
                   const EvaluationPoint& at = {}) const override;

 private:
  Options options_;
  std::vector<double> scores_;
};

/// How often an anchor is more similar to its positive than to its negative. Metrics
/// "cosine_accuracy", …; for several similarities also "max_accuracy", the primary one. The anchor
/// is embedded as a query, the others as documents. The table is
/// triplet_evaluation_NAME_results.csv.
class TripletEvaluator final : public EmbeddingEvaluator {
 public:
  using Options = SimilarityOptions;
  /// InputError unless it has rows of three columns. The difference must be larger than the
  /// similarity's margin; 0 unless given.
  TripletEvaluator(const TextDataset& dataset, Options options,
                   std::map<Similarity, double> margins = {});
  const char* kind() const override { return "TripletEvaluator"; }
  Report report_of(const std::vector<Tensor>& columns, Similarity own = Similarity::cosine,
                   const EvaluationPoint& at = {}) const override;

 private:
  Options options_;
  std::map<Similarity, double> margins_;
};

/// How far embeddings are from those of a teacher. The metric "negative_mse" is -100 times the mean
/// squared difference; the column MSE of mse_evaluation_NAME_results.csv is positive.
class MSEEvaluator final : public EmbeddingEvaluator {
 public:
  struct Options {
    std::string name = {};
  };
  /// `teacher` (texts, H) is the teacher's embedding of each text. InputError without texts.
  MSEEvaluator(Tensor teacher, std::vector<std::string> texts, Options options);
  const char* kind() const override { return "MSEEvaluator"; }
  /// InputError unless the model's embeddings are as wide as the teacher's.
  Report report_of(const std::vector<Tensor>& columns, Similarity own = Similarity::cosine,
                   const EvaluationPoint& at = {}) const override;

 private:
  std::string name_;
  std::vector<double> teacher_;
  std::int64_t width_;
};

/// How well queries put their documents in order. Metrics "map", "mrr@10" and "ndcg@10", the
/// primary one. Documents of equal score share their gain in map and ndcg; for mrr they are in
/// their order, positive ones first. The table is RerankingEvaluator_NAME_results_@10.csv.
class RerankingEvaluator final : public EmbeddingEvaluator {
 public:
  struct Options {
    std::string name = {};
    std::int64_t at_k = 10;
    Similarity similarity = Similarity::cosine;  // whatever the model's is
  };
  /// Samples without positive or without negative documents do not count; InputError if none is
  /// left. `source` is the name in messages.
  RerankingEvaluator(const std::vector<RerankingSample>& samples, const std::string& source,
                     Options options);
  const char* kind() const override { return "RerankingEvaluator"; }
  std::size_t queries() const { return columns_[0].texts.size(); }
  /// The queries of the samples that count, and their documents: each sample's positive ones before
  /// its negative ones.
  Report report_of(const std::vector<Tensor>& columns, Similarity own = Similarity::cosine,
                   const EvaluationPoint& at = {}) const override;

 private:
  Options options_;
  struct Documents {
    std::size_t positive, negative;
  };
  std::vector<Documents> documents_;  // of each query
};

}  // namespace ringlet::train
