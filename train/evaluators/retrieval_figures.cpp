#include "ringlet/train/evaluators/retrieval_figures.h"

#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/train/evaluators/ranking.h"

namespace ringlet::train {
namespace {

using Ranks = std::vector<std::int64_t>;

/// Calls visit(rank from 1) for each hit up to rank k.
template <class Visit>
void for_hits(const std::vector<bool>& hits, std::int64_t k, Visit visit) {
  for (std::int64_t rank = 1; rank <= std::min(k, std::ssize(hits)); ++rank)
    if (hits[static_cast<std::size_t>(rank - 1)]) visit(rank);
}

double count_hits(const std::vector<bool>& hits, std::int64_t k) {
  double found = 0;
  for_hits(hits, k, [&](std::int64_t) { ++found; });
  return found;
}

double discounted_gain(const std::vector<bool>& hits, std::int64_t k) {
  double sum = 0;
  for_hits(hits, k, [&](std::int64_t rank) { sum += gain(rank); });
  return sum;
}

double summed_precision(const std::vector<bool>& hits, std::int64_t k) {
  double sum = 0, found = 0;
  for_hits(hits, k, [&](std::int64_t rank) { sum += ++found / static_cast<double>(rank); });
  return sum;
}

void add_keys(std::vector<std::string>& keys, const char* name, const Ranks& ranks) {
  for (const std::int64_t k : ranks) keys.push_back(str(name, '@', k));
}

}  // namespace

std::int64_t largest(const RetrievalCutoffs& cutoffs) {
  std::int64_t most = 1;
  for (const Ranks* ranks : {&cutoffs.mrr_at_k, &cutoffs.ndcg_at_k, &cutoffs.accuracy_at_k,
                             &cutoffs.precision_recall_at_k, &cutoffs.map_at_k})
    for (const std::int64_t k : *ranks) most = std::max(most, k);
  return most;
}

std::vector<std::string> retrieval_keys(const RetrievalCutoffs& cutoffs) {
  std::vector<std::string> keys;
  add_keys(keys, "accuracy", cutoffs.accuracy_at_k);
  add_keys(keys, "precision", cutoffs.precision_recall_at_k);
  add_keys(keys, "recall", cutoffs.precision_recall_at_k);
  add_keys(keys, "ndcg", cutoffs.ndcg_at_k);
  add_keys(keys, "mrr", cutoffs.mrr_at_k);
  add_keys(keys, "map", cutoffs.map_at_k);
  return keys;
}

std::vector<std::string> retrieval_columns(const RetrievalCutoffs& cutoffs) {
  std::vector<std::string> keys;
  add_keys(keys, "accuracy", cutoffs.accuracy_at_k);
  for (const std::int64_t k : cutoffs.precision_recall_at_k) {
    add_keys(keys, "precision", {k});
    add_keys(keys, "recall", {k});
  }
  add_keys(keys, "mrr", cutoffs.mrr_at_k);
  add_keys(keys, "ndcg", cutoffs.ndcg_at_k);
  add_keys(keys, "map", cutoffs.map_at_k);
  return keys;
}

std::vector<double> retrieval_figures(const std::vector<bool>& hits, std::int64_t relevant,
                                      const RetrievalCutoffs& cutoffs) {
  RINGLET_CHECK(relevant > 0, "[retrieval] a query without relevant documents");
  std::vector<double> values;
  const auto add = [&](const Ranks& ranks, auto figure) {
    for (const std::int64_t k : ranks) values.push_back(figure(k));
  };
  const auto all = static_cast<double>(relevant);
  add(cutoffs.accuracy_at_k, [&](auto k) { return count_hits(hits, k) > 0 ? 1.0 : 0.0; });
  add(cutoffs.precision_recall_at_k,
      [&](auto k) { return count_hits(hits, k) / static_cast<double>(k); });
  add(cutoffs.precision_recall_at_k, [&](auto k) { return count_hits(hits, k) / all; });
  add(cutoffs.ndcg_at_k,
      [&](auto k) { return discounted_gain(hits, k) / ideal_gain(std::min(k, relevant)); });
  add(cutoffs.mrr_at_k, [&](auto k) { return reciprocal_rank(hits, k); });
  add(cutoffs.map_at_k, [&](auto k) {
    return summed_precision(hits, k) / static_cast<double>(std::min(k, relevant));
  });
  return values;
}

}  // namespace ringlet::train
