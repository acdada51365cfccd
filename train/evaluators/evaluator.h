// An evaluator of sentence encoders, with the metrics, names and tables of Sentence Transformers.
#pragma once

#include <string>
#include <vector>

#include "ringlet/models/sentence_encoder.h"
#include "ringlet/train/data/dataset.h"
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

/// The role of a text, for which a folder may have a prompt: "query" or "document". A plain text
/// has the folder's default prompt.
enum class TextRole { plain, query, document };

/// Embeddings (texts, H) by all ranks together; see encode_together.
Tensor encode_as(TextRole role, const models::SentenceEncoder& model,
                 std::span<const std::string> texts, const models::EncodeOptions& options,
                 const comm::Group& group);

}  // namespace ringlet::train
