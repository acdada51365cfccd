// How well queries find their relevant documents in a corpus.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "ringlet/train/data/retrieval.h"
#include "ringlet/train/evaluators/evaluator.h"
#include "ringlet/train/evaluators/search/similarity.h"

namespace ringlet::train {

/// The ranks at which figures are computed.
struct RetrievalCutoffs {
  std::vector<std::int64_t> mrr_at_k = {10};
  std::vector<std::int64_t> ndcg_at_k = {10};
  std::vector<std::int64_t> accuracy_at_k = {1, 3, 5, 10};
  std::vector<std::int64_t> precision_recall_at_k = {1, 3, 5, 10};
  std::vector<std::int64_t> map_at_k = {100};
};

/// Metrics "cosine_accuracy@1", …; primary is the NDCG at the largest k, of the similarity with the
/// best one. Documents of equal score are ordered by id. The table is
/// Information-Retrieval_evaluation_NAME_results.csv.
class InformationRetrievalEvaluator final : public Evaluator {
 public:
  struct Options {
    std::string name = {};
    std::vector<Similarity> similarities = {};  // empty: the model's similarity_fn_name
    std::size_t corpus_chunk_size = 50000;      // documents embedded before they are searched
    RetrievalCutoffs cutoffs = {};
  };
  /// Queries without relevant documents do not count; InputError if none is left.
  InformationRetrievalEvaluator(const RetrievalData& data, Options options);
  const char* kind() const override { return "InformationRetrievalEvaluator"; }
  std::size_t queries() const { return queries_.size(); }

  Report report(const models::SentenceEncoder& model,
                const EvaluationPoint& at = {}) const override;
  /// For given embeddings: (queries of the data, H), (documents of the data, H).
  Report report_of(const Tensor& queries, const Tensor& corpus, Similarity own = Similarity::cosine,
                   const EvaluationPoint& at = {}) const;

 private:
  /// Embeddings of documents [begin, end) in the order of ids.
  using Documents = std::function<Tensor(std::size_t begin, std::size_t end)>;
  Report score(const Tensor& queries, const Documents& documents, Similarity own,
               const EvaluationPoint& at) const;
  /// Means over the queries, from the hits of each.
  Metrics means_of(const std::vector<std::vector<Hit>>& found) const;

  Options options_;
  std::vector<std::string> queries_;
  std::vector<std::size_t> query_rows_;   // of the data
  std::vector<std::string> corpus_;       // in the order of ids
  std::vector<std::size_t> corpus_rows_;  // of the data
  struct Relevant {
    std::unordered_set<std::int64_t> rows;  // of corpus_
    std::int64_t count = 0;                 // with ids that the corpus lacks
  };
  std::vector<Relevant> relevant_;  // of each query
};

}  // namespace ringlet::train
