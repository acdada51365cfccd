#include "ringlet/train/evaluators/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double mean_of(std::span<const double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return sum / static_cast<double>(values.size());
}

bool has_nan(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
}

bool varies(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(), [&](double x) { return x != values[0]; });
}

// The deviations from the mean, as a vector of length 1. They are divided by the largest one before
// they are squared, so that squares neither overflow nor vanish.
std::vector<double> unit_deviations(std::span<const double> values) {
  const double mean = mean_of(values);
  std::vector<double> deviations;
  double largest = 0, squares = 0;
  for (const double value : values) {
    deviations.push_back(value - mean);
    largest = std::max(largest, std::abs(deviations.back()));
  }
  for (const double d : deviations) squares += (d / largest) * (d / largest);
  for (double& d : deviations) d /= largest * std::sqrt(squares);
  return deviations;
}

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

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The pairs with the highest scores are predicted as similar.
struct Cut {
  double threshold;
  double predicted;  // pairs
  double correct;    // similar ones among them
};

/// The cuts between unequal scores and behind the last one.
std::vector<Cut> cuts_of(std::span<const double> scores, const std::vector<bool>& similar) {
  const std::vector<std::size_t> order = descending_order(scores);
  std::vector<Cut> cuts;
  double correct = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    correct += similar[order[i]];
    const double score = scores[order[i]];
    const bool is_last = i + 1 == order.size();
    const double next = is_last ? score : scores[order[i + 1]];
    if (!is_last && next == score) continue;
    const double middle = (score + next) / 2;
    // A middle that is rounded to the next score would include that.
    const double threshold = is_last || middle == next ? score : middle;
    cuts.push_back({threshold, static_cast<double>(i + 1), correct});
  }
  return cuts;
}

double matthews(double rows, double similar, const Cut& at) {
  const double others = rows - similar, rejected = rows - at.predicted;
  const double covariance = at.correct * rows - at.predicted * similar;
  const double scale = at.predicted * rejected * (similar * others);
  return scale == 0 ? 0 : covariance / std::sqrt(scale);
}

}  // namespace

std::vector<double> average_ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = static_cast<double>(begin + 1 + end) / 2;
    for (; begin < end; ++begin) ranks[order[begin]] = rank;
  }
  return ranks;
}

double pearson(std::span<const double> a, std::span<const double> b) {
  RINGLET_CHECK_EQ(a.size(), b.size(), "[pearson] both sides need one value per row");
  if (!varies(a) || !varies(b)) return kNaN;
  const std::vector<double> x = unit_deviations(a), y = unit_deviations(b);
  return std::clamp(std::inner_product(x.begin(), x.end(), y.begin(), 0.0), -1.0, 1.0);
}

double spearman(std::span<const double> a, std::span<const double> b) {
  RINGLET_CHECK_EQ(a.size(), b.size(), "[spearman] both sides need one value per row");
  if (has_nan(a) || has_nan(b)) return kNaN;
  return pearson(average_ranks(a), average_ranks(b));
}

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
  if (has_nan(scores)) return kNaN;
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
  if (has_nan(scores)) return kNaN;
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

BinaryScores binary_scores(std::span<const double> scores, const std::vector<bool>& similar) {
  RINGLET_CHECK_EQ(scores.size(), similar.size(), "[binary] scores and labels");
  RINGLET_CHECK(!scores.empty(), "[binary] no rows");
  const auto rows = static_cast<double>(scores.size());
  const auto positives = static_cast<double>(std::ranges::count(similar, true));
  BinaryScores best;
  best.ap = average_precision(scores, similar);
  if (std::isnan(best.ap)) {
    const double nan = best.ap;
    return {nan, nan, nan, nan, nan, nan, nan, nan};
  }
  const std::vector<Cut> cuts = cuts_of(scores, similar);
  const double highest = scores[descending_order(scores).front()];
  best.accuracy = (rows - positives) / rows;  // of no pair predicted as similar
  best.accuracy_threshold = std::nextafter(highest, kInfinity);
  for (const Cut& cut : cuts) {
    const double accuracy = (cut.correct + rows - positives - (cut.predicted - cut.correct)) / rows;
    if (accuracy > best.accuracy) {
      best.accuracy = accuracy;
      best.accuracy_threshold = cut.threshold;
    }
    if (cut.correct == 0) continue;
    const double precision = cut.correct / cut.predicted, recall = cut.correct / positives;
    const double f1 = 2 * precision * recall / (precision + recall);
    if (f1 > best.f1) {
      best.f1 = f1;
      best.f1_threshold = cut.threshold;
      best.precision = precision;
      best.recall = recall;
    }
  }
  Cut at{best.f1_threshold, 0, 0};
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (scores[i] >= best.f1_threshold) {
      ++at.predicted;
      at.correct += similar[i];
    }
  best.mcc = matthews(rows, positives, at);
  return best;
}

}  // namespace ringlet::train
