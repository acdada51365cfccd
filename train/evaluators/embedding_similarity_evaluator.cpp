#include "ringlet/train/evaluators/embedding_similarity_evaluator.h"

#include <algorithm>

#include "ringlet/train/data/readers.h"
#include "ringlet/train/evaluators/statistics.h"

namespace ringlet::train {

EmbeddingSimilarityEvaluator::EmbeddingSimilarityEvaluator(const std::filesystem::path& file)
    : EmbeddingSimilarityEvaluator(read_dataset(file), Options{.name = file.stem().string()}) {}

EmbeddingSimilarityEvaluator::EmbeddingSimilarityEvaluator(const TextDataset& dataset,
                                                           Options options)
    : options_(std::move(options)) {
  if (dataset.columns().size() != 2 || dataset.target() != Target::score)
    fail_input(dataset.name(), ": expected two sentences and a score in each row");
  first_ = column_texts(dataset, 0);
  second_ = column_texts(dataset, 1);
  for (std::size_t row = 0; row < dataset.size(); ++row) scores_.push_back(dataset.score(row));
  const auto [low, high] = std::minmax_element(scores_.begin(), scores_.end());
  if (low == high || *low == *high)
    fail_input(dataset.name(), ": expected scores that differ, found ", scores_.size(), " rows of ",
               scores_.empty() ? 0 : *low);
}

Report EmbeddingSimilarityEvaluator::report(const models::SentenceEncoder& model,
                                            const EvaluationPoint& at) const {
  const auto encode = [&](const std::vector<std::string>& texts) {
    return encode_as(TextRole::plain, model, texts, options_.encode, at.group);
  };
  return report_of(encode(first_), encode(second_), own_similarity(model), at);
}

Report EmbeddingSimilarityEvaluator::report_of(const Tensor& first, const Tensor& second,
                                               Similarity own, const EvaluationPoint& at) const {
  Report report(options_.name);
  std::vector<double> rs, rhos;
  const std::vector<Similarity> similarities = similarities_or(options_.similarities, own);
  for (const Similarity similarity : similarities) {
    const std::vector<double> values = paired_similarities(similarity, first, second);
    const std::string name(kSimilarities(similarity));
    rs.push_back(pearson(values, scores_));
    rhos.push_back(spearman(values, scores_));
    report.add_metric("pearson_" + name, rs.back());
    report.add_metric("spearman_" + name, rhos.back());
    report.add_column(name + "_pearson", rs.back());
    report.add_column(name + "_spearman", rhos.back());
  }
  if (similarities.size() > 1) {
    report.add_metric("pearson_max", *std::ranges::max_element(rs));
    report.add_metric("spearman_max", *std::ranges::max_element(rhos));
  }
  report.set_primary(similarities.size() > 1
                         ? "spearman_max"
                         : str("spearman_", kSimilarities(similarities.front())));
  report.write("similarity_evaluation", at);
  return report;
}

}  // namespace ringlet::train
