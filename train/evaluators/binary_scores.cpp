#include "ringlet/train/evaluators/binary_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ringlet/core/base/error.h"
#include "ringlet/train/evaluators/ranking.h"

namespace ringlet::train {
namespace {

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
