#include "ringlet/train/evaluators/binary_classification_evaluator.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ringlet/train/evaluators/binary_scores.h"

namespace ringlet::train {
namespace {

struct Figure {
  const char* name;
  double BinaryScores::*value;
};
constexpr std::array kMetrics{Figure{"accuracy", &BinaryScores::accuracy},
                              Figure{"accuracy_threshold", &BinaryScores::accuracy_threshold},
                              Figure{"f1", &BinaryScores::f1},
                              Figure{"f1_threshold", &BinaryScores::f1_threshold},
                              Figure{"precision", &BinaryScores::precision},
                              Figure{"recall", &BinaryScores::recall},
                              Figure{"ap", &BinaryScores::ap},
                              Figure{"mcc", &BinaryScores::mcc}};
constexpr std::array<std::size_t, 8> kTableOrder{0, 1, 2, 4, 5, 3, 6, 7};

BinaryScores negated_thresholds(BinaryScores scores) {
  scores.accuracy_threshold = 0 - scores.accuracy_threshold;
  scores.f1_threshold = 0 - scores.f1_threshold;
  return scores;
}

}  // namespace

BinaryClassificationEvaluator::BinaryClassificationEvaluator(const TextDataset& dataset,
                                                             Options options)
    : options_(std::move(options)) {
  if (dataset.columns().size() != 2 || dataset.target() != Target::label || dataset.size() == 0)
    fail_input(dataset.name(), ": expected two sentences and a label, 0 or 1, in each row");
  if (dataset.num_labels() > 2)
    fail_input(dataset.name(), ": expected labels 0 and 1, found ", dataset.num_labels() - 1);
  first_ = column_texts(dataset, 0);
  second_ = column_texts(dataset, 1);
  for (std::size_t row = 0; row < dataset.size(); ++row)
    similar_.push_back(dataset.label(row) == 1);
}

Report BinaryClassificationEvaluator::report(const models::SentenceEncoder& model,
                                             const EvaluationPoint& at) const {
  const auto encode = [&](const std::vector<std::string>& texts) {
    return encode_as(TextRole::plain, model, texts, options_.encode, at.group);
  };
  return report_of(encode(first_), encode(second_), own_similarity(model), at);
}

Report BinaryClassificationEvaluator::report_of(const Tensor& first, const Tensor& second,
                                                Similarity own, const EvaluationPoint& at) const {
  Report report(options_.name);
  BinaryScores most;
  for (const Figure& figure : kMetrics)
    most.*figure.value = -std::numeric_limits<double>::infinity();
  const std::vector<Similarity> similarities = similarities_or(options_.similarities, own);
  for (const Similarity similarity : similarities) {
    BinaryScores found = binary_scores(paired_similarities(similarity, first, second), similar_);
    if (!is_product(similarity)) found = negated_thresholds(found);
    const std::string name = str(kSimilarities(similarity), '_');
    for (const Figure& figure : kMetrics) {
      report.add_metric(name + figure.name, found.*figure.value);
      // NaN stays.
      if (!(found.*figure.value <= most.*figure.value)) most.*figure.value = found.*figure.value;
    }
    for (const std::size_t i : kTableOrder)
      report.add_column(name + kMetrics[i].name, found.*kMetrics[i].value);
  }
  if (similarities.size() > 1)
    for (const Figure& figure : kMetrics)
      report.add_metric(str("max_", figure.name), most.*figure.value);
  report.set_primary(similarities.size() > 1 ? "max_ap"
                                             : str(kSimilarities(similarities.front()), "_ap"));
  report.write("binary_classification_evaluation", at);
  return report;
}

}  // namespace ringlet::train
