// An evaluator of sentence encoders, with the metrics, names and tables of Sentence Transformers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringlet/models/sentence_encoder.h"
#include "ringlet/train/data/dataset.h"
#include "ringlet/train/evaluators/encode_together.h"
#include "ringlet/train/report/metrics.h"

namespace ringlet::train {

/// The figures of one evaluation: metrics by name, and a line of a table.
class Report {
 public:
  /// `name` is of the data: metrics are called "NAME_KEY", or "KEY" without a name.
  explicit Report(std::string name) : name_(std::move(name)) {}

  void add_metric(const std::string& key, double value);
  void add_column(const std::string& header, double value);
  /// The metric `key` compares models.
  void set_primary(const std::string& key);

  const Metrics& metrics() const { return metrics_; }
  const Metrics::value_type& primary() const { return metrics_[primary_]; }

  /// Rank 0 appends a line to TABLE[_NAME]_ENDING.csv in the output folder, if there is one. Its
  /// first columns are epoch and steps.
  void write(const std::string& table, const EvaluationPoint& at,
             const std::string& ending = "results", std::string_view line_end = "\r\n") const;

 private:
  std::string prefixed(const std::string& key) const;

  std::string name_;
  Metrics metrics_;
  std::size_t primary_ = 0;
  std::string header_ = "epoch,steps";
  std::vector<double> line_;
};

class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual const char* kind() const = 0;  // the class

  /// All ranks of `at.group` call it together, and each receives the same figures. If `at` has an
  /// output folder, rank 0 appends a line to a table there.
  virtual Report report(const models::SentenceEncoder& model,
                        const EvaluationPoint& at = {}) const = 0;

  Metrics evaluate(const models::SentenceEncoder& model, const EvaluationPoint& at = {}) const {
    return report(model, at).metrics();
  }
  /// The primary figure.
  double operator()(const models::SentenceEncoder& model, const comm::Group& group = {}) const {
    return report(model, {.group = group}).primary().second;
  }
};

/// The texts of a column.
std::vector<std::string> column_texts(const TextDataset& dataset, std::size_t column);

}  // namespace ringlet::train
