#include "ringlet/train/evaluators/reranking_evaluator.h"

#include <algorithm>

#include "ringlet/train/evaluators/ranking.h"

namespace ringlet::train {

RerankingEvaluator::RerankingEvaluator(const std::vector<RerankingSample>& samples,
                                       const std::string& source, Options options)
    : options_(std::move(options)) {
  std::ranges::copy_if(samples, std::back_inserter(samples_), [](const RerankingSample& sample) {
    return !sample.positive.empty() && !sample.negative.empty();
  });
  if (samples_.empty())
    fail_input(source, ": expected a query with positive and negative documents, found none");
  if (options_.at_k < 1) fail_input("reranking at k: expected at least 1, found ", options_.at_k);
}

Report RerankingEvaluator::report(const models::SentenceEncoder& model,
                                  const EvaluationPoint& at) const {
  std::vector<std::string> queries, documents;
  for (const RerankingSample& sample : samples_) {
    queries.push_back(sample.query);
    documents.insert(documents.end(), sample.positive.begin(), sample.positive.end());
    documents.insert(documents.end(), sample.negative.begin(), sample.negative.end());
  }
  const auto encode = [&](TextRole role, const std::vector<std::string>& texts) {
    return encode_as(role, model, texts, options_.encode, at.group);
  };
  return report_of(encode(TextRole::query, queries), encode(TextRole::document, documents), at);
}

Report RerankingEvaluator::report_of(const Tensor& queries, const Tensor& documents,
                                     const EvaluationPoint& at) const {
  const std::int64_t width = queries.size(1);
  const Tensor query = queries.to(Device{}), document = documents.to(Device{});
  double map = 0, mrr = 0, gains = 0;
  std::int64_t row = 0;  // of documents
  for (std::size_t q = 0; q < samples_.size(); ++q) {
    std::vector<bool> relevant(samples_[q].positive.size(), true);
    relevant.resize(relevant.size() + samples_[q].negative.size(), false);
    std::vector<double> scores;
    for (std::size_t i = 0; i < relevant.size(); ++i, ++row)
      scores.push_back(similarity_of(options_.similarity,
                                     query[static_cast<std::int64_t>(q)].data<float>(),
                                     document[row].data<float>(), width));
    map += average_precision(scores, relevant);
    std::vector<bool> hits;
    for (const std::size_t i : descending_order(scores)) hits.push_back(relevant[i]);
    mrr += reciprocal_rank(hits, options_.at_k);
    gains += ndcg(scores, relevant, options_.at_k);
  }
  const auto count = static_cast<double>(samples_.size());
  Report report(options_.name);
  const auto add = [&](const std::string& key, const std::string& header, double sum) {
    report.add_metric(key, sum / count);
    report.add_column(header, sum / count);
  };
  const std::string at_k = str('@', options_.at_k);
  add("map", "MAP", map);
  add("mrr" + at_k, "MRR" + at_k, mrr);
  add("ndcg" + at_k, "NDCG" + at_k, gains);
  report.set_primary("ndcg" + at_k);
  report.write("RerankingEvaluator", at, "results_" + at_k);
  return report;
}

}  // namespace ringlet::train
