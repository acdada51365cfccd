// Figures of one query's hits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringlet::train {

/// The ranks at which figures are computed.
struct RetrievalCutoffs {
  std::vector<std::int64_t> mrr_at_k = {10};
  std::vector<std::int64_t> ndcg_at_k = {10};
  std::vector<std::int64_t> accuracy_at_k = {1, 3, 5, 10};
  std::vector<std::int64_t> precision_recall_at_k = {1, 3, 5, 10};
  std::vector<std::int64_t> map_at_k = {100};
};

/// The largest of them.
std::int64_t largest(const RetrievalCutoffs& cutoffs);

/// "accuracy@1", …, "precision@1", …, "recall@1", …, "ndcg@10", "mrr@10", "map@100".
std::vector<std::string> retrieval_keys(const RetrievalCutoffs& cutoffs);
/// The keys in the order of the table: each precision is followed by its recall, MRR by NDCG.
std::vector<std::string> retrieval_columns(const RetrievalCutoffs& cutoffs);

/// The figures in the order of retrieval_keys. `hits`: whether the document of each rank is
/// relevant; `relevant`: how many there are, at least 1.
std::vector<double> retrieval_figures(const std::vector<bool>& hits, std::int64_t relevant,
                                      const RetrievalCutoffs& cutoffs);

}  // namespace ringlet::train
