#include "ringlet/train/evaluators/triplet_evaluator.h"

#include <algorithm>

namespace ringlet::train {

TripletEvaluator::TripletEvaluator(const TextDataset& dataset, Options options)
    : options_(std::move(options)) {
  if (dataset.columns().size() != 3 || dataset.size() == 0)
    fail_input(dataset.name(), ": expected an anchor, a positive and a negative in each row");
  anchors_ = column_texts(dataset, 0);
  positives_ = column_texts(dataset, 1);
  negatives_ = column_texts(dataset, 2);
}

Report TripletEvaluator::report(const models::SentenceEncoder& model,
                                const EvaluationPoint& at) const {
  const auto encode = [&](TextRole role, const std::vector<std::string>& texts) {
    return encode_as(role, model, texts, options_.encode, at.group);
  };
  return report_of(encode(TextRole::query, anchors_), encode(TextRole::document, positives_),
                   encode(TextRole::document, negatives_), own_similarity(model), at);
}

Report TripletEvaluator::report_of(const Tensor& anchors, const Tensor& positives,
                                   const Tensor& negatives, Similarity own,
                                   const EvaluationPoint& at) const {
  Report report(options_.name);
  double most = 0;
  const std::vector<Similarity> similarities = similarities_or(options_.similarities, own);
  for (const Similarity similarity : similarities) {
    const auto margin = options_.margins.find(similarity);
    const double more = margin == options_.margins.end() ? 0 : margin->second;
    const std::vector<double> near = paired_similarities(similarity, anchors, positives);
    const std::vector<double> far = paired_similarities(similarity, anchors, negatives);
    std::size_t correct = 0;
    for (std::size_t i = 0; i < near.size(); ++i) correct += near[i] > far[i] + more;
    const double accuracy = static_cast<double>(correct) / static_cast<double>(near.size());
    report.add_metric(str(kSimilarities(similarity), "_accuracy"), accuracy);
    report.add_column(str("accuracy_", kSimilarities(similarity)), accuracy);
    most = std::max(most, accuracy);
  }
  if (similarities.size() > 1) {
    report.add_metric("max_accuracy", most);
    report.set_primary("max_accuracy");
  }
  report.write("triplet_evaluation", at);
  return report;
}

}  // namespace ringlet::train
