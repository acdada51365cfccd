// How well queries put their documents in order.
#pragma once

#include <string>
#include <vector>

#include "ringlet/train/data/reranking.h"
#include "ringlet/train/evaluators/evaluator.h"
#include "ringlet/train/evaluators/search/similarity.h"

namespace ringlet::train {

/// Metrics "map", "mrr@10" and "ndcg@10", the primary one. Documents of equal score share their
/// gain in map and ndcg; for mrr they are in their order, positive ones first. The table is
/// RerankingEvaluator_NAME_results_@10.csv.
class RerankingEvaluator final : public Evaluator {
 public:
  struct Options {
    std::string name = {};
    std::int64_t at_k = 10;
    Similarity similarity = Similarity::cosine;  // whatever the model's is
    models::EncodeOptions encode = {};
  };
  /// Samples without positive or without negative documents do not count; InputError if none is
  /// left. `source` is the name in messages.
  RerankingEvaluator(const std::vector<RerankingSample>& samples, const std::string& source,
                     Options options);
  const char* kind() const override { return "RerankingEvaluator"; }
  std::size_t queries() const { return samples_.size(); }

  Report report(const models::SentenceEncoder& model,
                const EvaluationPoint& at = {}) const override;
  /// For given embeddings of the samples that count: (queries, H), and (documents, H) with each
  /// sample's positive ones before its negative ones.
  Report report_of(const Tensor& queries, const Tensor& documents,
                   const EvaluationPoint& at = {}) const;

 private:
  Options options_;
  std::vector<RerankingSample> samples_;
};

}  // namespace ringlet::train
