#include "ringlet/train/evaluators/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ringlet/core/base/error.h"
#include "ringlet/train/evaluators/statistics.h"

namespace ringlet::train {
namespace {

/// Calls visit(begin, end, relevant documents among them) for the ranks of each distinct score.
template <class Visit>
void for_distinct_scores(std::span<const double> scores, const std::vector<bool>& relevant,
                         Visit visit) {
  RINGLET_CHECK_EQ(scores.size(), relevant.size(), "[ranking] scores and documents");
  const std::vector<std::size_t> order = descending_order(scores);
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin, hits = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end)
      hits += relevant[order[end]];
    visit(begin, end, static_cast<double>(hits));
    begin = end;
  }
}

double count_relevant(const std::vector<bool>& relevant) {
  return static_cast<double>(std::ranges::count(relevant, true));
}

}  // namespace

std::vector<std::size_t> descending_order(std::span<const double> scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t i, std::size_t j) {
    return scores[i] > scores[j] || (std::isnan(scores[j]) && !std::isnan(scores[i]));
  });
  return order;
}

double average_precision(std::span<const double> scores, const std::vector<bool>& relevant) {
  const double total = count_relevant(relevant);
  if (has_nan(scores)) return std::numeric_limits<double>::quiet_NaN();
  if (total == 0) return 0;
  double found = 0, sum = 0;
  for_distinct_scores(scores, relevant, [&](std::size_t, std::size_t end, double hits) {
    found += hits;
    sum += hits / total * (found / static_cast<double>(end));
  });
  return sum;
}

double reciprocal_rank(const std::vector<bool>& hits, std::int64_t k) {
  const auto end = hits.begin() + std::min(k, std::ssize(hits));
  const auto first = std::find(hits.begin(), end, true);
  return first == end ? 0 : 1 / static_cast<double>(first - hits.begin() + 1);
}

double gain(std::int64_t rank) { return 1 / std::log2(static_cast<double>(rank + 1)); }

double ideal_gain(std::int64_t n) {
  double sum = 0;
  for (std::int64_t rank = 1; rank <= n; ++rank) sum += gain(rank);
  return sum;
}

double ndcg(std::span<const double> scores, const std::vector<bool>& relevant, std::int64_t k) {
  const double total = count_relevant(relevant);
  if (has_nan(scores)) return std::numeric_limits<double>::quiet_NaN();
  if (total == 0) return 0;
  const auto gain_to = [&](std::size_t rank) {
    return ideal_gain(std::min(static_cast<std::int64_t>(rank), k));
  };
  double sum = 0;
  for_distinct_scores(scores, relevant, [&](std::size_t begin, std::size_t end, double hits) {
    sum += hits / static_cast<double>(end - begin) * (gain_to(end) - gain_to(begin));
  });
  return sum / gain_to(static_cast<std::size_t>(total));
}

}  // namespace ringlet::train
