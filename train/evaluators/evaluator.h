// An evaluator of sentence encoders, with the metrics, names and tables of Sentence Transformers.
#pragma once

#include <string>
#include <vector>

#include "ringlet/models/sentence_encoder.h"
#include "ringlet/train/data/dataset.h"
#include "ringlet/train/evaluators/encode_together.h"
#include "ringlet/train/evaluators/report.h"

namespace ringlet::train {

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
